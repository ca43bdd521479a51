// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry keeps the replica and the local API server saying the same of Clusters, rules and features.
//
//	local API server ── Publisher ──► replica      what this cluster owns
//	local API server ◄── Importer ─── replica      what other clusters own
//
// Both are level-triggered: a key says "look again", never what happened. The local API server is the authority for what
// this cluster owns (Own keeps its Cluster object), the replica for the rest. A copy is deleted only on proof
// (replica.Absent), of a set that was complete after the copy was made: CatchUp asks each member itself for all that it
// published. What a member published and cannot be used is reported by Refusals.
//
// Lock order: Publisher.publishing is held while the gate and the rules are asked, so neither may call the publisher with a
// lock of its own held but to note that there is something to publish.
package registry
