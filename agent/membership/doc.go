// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership is who is in the group: whose key is pinned, whose was removed, by whom, and how this cluster leaves.
//
// A swap pins a key (Swapped), and an introduction by a member does (mesh.Trust). Pins are recorded, and win over the
// Cluster objects, which anybody with write access to this cluster may edit.
//
// What a removal ends, and in which order:
//
//	merged ──► pin, connections (mesh)            at once, in the merging goroutine
//	       ──► source of copies, orphans (engine) at once
//	       ──► recorded ──► accounts of its readers, our credential for it, its Cluster objects, the bootstrap
//	           credential ──► recorded as ended
//
// Whatever fails is tried again; a restart goes on where it was.
//
// A membership ends in one of two ways:
//
//	member ──── leave (a person here) ────► everybody told ──┐
//	   │                                                     ├─► group forgotten ──► new key, alone
//	   └─────── removed (by another member) ──► group        │
//	                                         forgotten ── leave
//
// A removed cluster keeps its key, which says that it was removed, until a person in it asks for a new one; that is
// the same request as to leave: this key is given up.
//
// Lock order: Membership.recording > ledger.mu; pins.recording > mesh.Trust. Hooks are called with Membership.recording
// held where a removal of our own is published: they may only note that there is something to do.
package membership
