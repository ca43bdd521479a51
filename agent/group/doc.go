// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package group runs one of several agents of a cluster (--group-peers). The agents hold the same entries, in a
// replicated log (replica/journal). They elect a leader, and the leader is the active agent of the cluster, in the mesh
// and at the API server.
//
//	          elected                   term lost, or stopped
//	follower ─────────► leader: a term ─────────► follower
//
// The leader does what a single agent does: Run calls the function lead for each term. A follower applies the log,
// forwards connections to its mesh port to the leader (mesh.Front), and writes nothing to the API server but the
// bootstrap record. That is a Secret of the private namespace in which the agents agree on which raft group is theirs.
//
// A Group has one key and one raft group. When the cluster gets another key (ErrOtherKey) or its agents form another
// raft group (journal.ErrOtherGroup), Run returns, and the caller enters again:
//
//	health.Follow(group.NotEntered)
//	g, err := group.Enter(ctx, options)    // retried until it succeeds
//	err = g.Run(ctx, lead)
package group
