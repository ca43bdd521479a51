// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry keeps the Clusters, rules and features in the local API server and those in the replica the same.
//
//	local API server ── Publisher ──► replica      what this cluster owns
//	local API server ◄── Importer ─── replica      what other clusters own
//
// Both are level-triggered: a key says what to compare, and not what happened. The local API server is the authority
// for what this cluster owns, and the replica for the rest. Own maintains this cluster's own Cluster object.
//
// The importer deletes a copy only on proof (replica.Absent): the origin's set was complete after the copy was made,
// and does not have the object. For that, package catchup asks each member itself for all that it published. Refusals
// reports what members published and cannot be used.
//
// Wiring enqueues a key (Enqueue) after each change in the informers or in the replica.
//
// Lock order: Publisher.publishing is held while the gate and the rules are asked. They must not call the publisher with
// a lock of their own held, but to enqueue.
package registry
