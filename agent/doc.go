// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is one Roster agent: it makes the parts below it, joins them, and runs them.
//
//	     local API server                       peers' API servers
//	  informers │      ▲ writes                        │ watches (peers)
//	            ▼      │                               ▼
//	┌─────────────────────────────┐   rules, peers  ┌──────────────────┐
//	│ publisher    importer       │ ──────────────► │ syncrules/engine │ (rules)
//	│     │            ▲          │                 └──────────────────┘
//	│     ▼            │          │
//	│   replica  (merged entries) │
//	└─────┬────────────▲──────────┘
//	      ▼            │
//	     mesh  (pinned members only: membership)
//
// What a cluster owns flows down on the left: an informer event names a key, the publisher reads the
// object and hands its payload to the replica, the mesh spreads the signed message. What others own flows
// up on the right: a merged message names a key, the importer compares the replica with the local object
// and writes the difference. Both are level-triggered: a key says "look again", never what happened, so an
// event that is lost or doubled changes nothing.
//
// Each part is a package with its own state, lock, record in the private Secrets, metrics and tests. Parts know leaves,
// and never each other:
//
//	parts   address  credentials  group  identity  membership  peers  registry  restore  rules  status
//	leaves  apiconn  directory  health  informers  install  loop  payload  probe  store  tuning
//
// This package alone knows them all. session.go makes them, one after the other; wiring.go says who wakes whom; facts.go
// puts what one part knows into the terms of another. A new part is a package, a line in session.go, and one in wiring.go.
//
// Where a cluster has several agents, one of them at a time is all of this: the one that the others elected, for the
// time of its term (package group). The others hold the entries and pass on what comes to their mesh port.
//
// The local API server is the authority for what this cluster owns; the replica is the authority for the
// rest. Nothing here reads "unknown" as "gone": copies are deleted only on proof (replica.Absent).
package agent
