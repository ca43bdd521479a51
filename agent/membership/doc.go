// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership keeps who is in the group: which keys are pinned, which were removed and by whom, and how this
// cluster leaves.
//
// A swap pins the key of a cluster (Swapped), and so does an introduction by a member (package mesh/trust). Pins are recorded
// in Secrets. They win over the Cluster objects, which anybody with write access to this cluster may edit. That of a swap is recorded before
// the object that was pasted becomes a copy (Recorded): a copy admits nobody.
//
// A person removes a cluster with an annotation on its Cluster object (CheckRemovalRequest), or leaves with one on the
// own object (CheckRequests). A removal is a signed message in the replica. What it ends, in this order:
//
//	merged ──► pin, connections (mesh)            at once, in the goroutine that merges
//	       ──► source of copies, orphans (engine) at once
//	       ──► recorded ──► accounts of its readers, our credential for it, its Cluster objects, the bootstrap
//	           credential ──► recorded as ended
//
// A removal that exceeds what one member may order unseen is held (Hold): it is recorded, and nothing of this happens until a
// person confirms it (CheckRequests). See package agent/removals.
//
// A step that fails is retried, and a restart continues where the last run stopped.
//
// A membership ends in one of two ways:
//
//	member ──── leave (a person here) ────► announced ───────┐
//	   │                                                     ├─► group forgotten ──► new key, alone
//	   └─────── removed (by another member) ──► group        │
//	                                         forgotten ── leave
//
// A cluster that was removed keeps its key, so that it can show that it was removed, until a person asks to leave. Then
// it gives up that key and gets a new one.
//
// Lock order: Membership.recording > ledger.mu; pins.recording > the lock of trust.Table. Hooks are called with Membership.recording
// held where a removal of our own is published: they may only note that there is something to do.
package membership
