// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package group is this agent's part in the group of agents of its cluster, where there are several (--group-peers).
// They hold the same things, in a replicated log (replica/journal), and one of them leads: it is the cluster's active
// agent, in the mesh and at the API server.
//
//	          elected                   term lost, or told to end
//	follower ─────────► leader: a term ─────────► follower
//
// Who leads does what an agent does that is alone; that is the function given to Run. Who follows applies the log, passes
// on what other clusters open to the mesh port (mesh.Front), and writes nothing to the API server but the bootstrap
// record, a private Secret in which the agents of the cluster agree upon which group is theirs.
//
// A Group has one key and is in one raft group. When the cluster has another key (ErrOtherKey) or another group
// (journal.ErrOtherGroup), Run ends, and the agent enters again:
//
//	health.Follow(group.NotEntered)
//	g, err := group.Enter(ctx, options)    // again while it fails
//	err = g.Run(ctx, lead)
package group
