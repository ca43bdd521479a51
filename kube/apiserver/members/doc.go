// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package members makes several servers of one cluster out of one. All have the same keys and the data of one etcd, of
// which each is a member, so that the cluster goes on while a majority of them is up.
//
// A server gets in by a bundle:
//
//	roster-apiserver add          writes a ticket into etcd, for one address, and the bundle into a file      (Add)
//	new server                    asks any server of the bundle to let it in, with its instance               (Join)
//	server that is asked          enters the instance in the ticket: from now on the bundle is used;
//	                              adds the address to etcd's members, as a learner, which has no vote         (Handler)
//	new server                    starts etcd, which gets all data from the others
//	server that leads             makes the learner a voter when it has caught up                             (Promote)
//
// Each step can be repeated after a crash of either side. The ticket is what makes a bundle count once: it names the only
// instance, a random text in the data directory of the new server, that the bundle is for. Two processes that took
// themselves for the same member would vote twice.
package members
