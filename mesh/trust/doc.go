// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trust knows which key speaks for which cluster.
//
// Who admits: a person here, by a swap or an approval, admits any cluster; any member admits, by an [Admission] that it signs, one
// whose clusterID nobody was removed of, and for the others only the members that Options.Authorities name do.
// Who removes: any member removes any cluster, and each cluster itself.
//
// Who forwards what an unknown cluster says vouches for nothing, unless that one has never signed an admission: members of earlier
// versions sign none. [Table.Words] has on whose word a member is pinned.
//
// A pin is a clusterID and its key. The first pin of a clusterID stays; no key speaks for two clusters; a key that was
// removed of a cluster is never pinned for it again. A clusterID is reserved once another member has removed a key of it, or
// it has left: who introduces it with another key may be the one who removed it, and would own its name, its rules and its
// copies. So such a newcomer waits, unless it is admitted:
//
//	a person here          swapped, or approved the key              stands
//	an authority           introduces it                             stands
//	its own leave          names the key as its successor            while nobody else has removed a key of that line
//
// A member may be an edge, which neither admits nor removes others, and whose rules are in force nowhere else: what it admits is not
// read. A cluster is one if nobody who may admit others has ever admitted it as more than that, here or in an admission that was held.
// So the order does not matter, who is no edge is made one by nobody, and no edge makes itself more:
//
//	admitted as an edge by all who did  ──► edge ──► admitted by one of them, or by another, as more ──► full, until it is removed
//
// Anybody can make up a key, and let that leave. So a leave counts if its key was pinned here, or is the successor of such a
// key. If another member has removed any key of the cluster, it must be one that a person or an authority had admitted here.
//
// What [Graph] decides of a newcomer depends on what it was told, not on the order: a removal that comes late ends a
// pin that it would have prevented. [Table] is a graph with a lock, and tells others of changes.
package trust
