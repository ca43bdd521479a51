// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history notices that an API server was restored from a backup, which Kubernetes itself tells no client.
//
// A server that was restored lacks objects that were not deleted, and has objects that were. Who deletes copies because
// of what a list lacks must not believe it. Positions keep, for one cluster and for each kind, what was read last: the
// highest resourceVersion, the newest object, and the last object that was deleted. Three things prove a restore:
//
//   - a list has a resourceVersion below the highest one: the server is behind;
//   - a list has a resourceVersion further ahead than an API server gets by being written to: etcd's revision was moved
//     ahead, as the Kubernetes documentation says to do after a restore (etcdutl snapshot restore --bump-revision);
//   - the newest object was never there at its resourceVersion, or an object is there that was changed last before the
//     resourceVersion at which it was absent: the server has another history, and may have caught up since.
//
// Then the kind is rolled back, and its lists are refused until the owner of the cluster confirms the restore. With a
// confirmation a new incarnation of the kind begins: what watches of the one before still report is ignored.
//
//	            proof of a restore
//	following ──────────────────────► rolled back: every list is refused, also when
//	    ▲                                  │       the server has caught up
//	    └──────────────────────────────────┘
//	       a list after a new confirmation: its resourceVersion is the highest one
//
// All other watches of the server end then, and list: what a server that has caught up changed below the resourceVersion at
// which a watch goes on would never reach it (OnRestore).
//
// Positions that trust the server, as those of the local one, refuse nothing. They call a function instead.
//
// The package sends no requests: kube asks the API server (compareHistory), and tells Positions what it answered.
// Positions belong to a cluster and not to a connection. They outlive a client, and with Note and Recall the program.
// Kinds may be stored in different etcds, so that the resourceVersions of two kinds are not compared.
package history
