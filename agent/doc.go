// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent runs one Roster agent: it makes the parts, connects them, and runs them.
//
//	     local API server                       API servers of peers
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
// Objects that this cluster owns go down on the left: an informer enqueues a key, the publisher reads the object and
// hands its payload to the replica, and the mesh spreads the signed message. Objects of other clusters come up on the
// right: a merge enqueues a key, and the importer compares the replica with the local object and writes the difference.
// Both are level-triggered: a key says what to reconcile and not what happened, so an event that is lost or repeated
// changes nothing.
//
// Each part is a package with its own state, lock, Secrets, metrics and tests. A part imports leaves and never another
// part:
//
//	parts   address  credentials  group  identity  membership  peers  profiles  registry  restore  rules  status
//	leaves  apiconn  directory  health  informers  install  loop  payload  probe  store  tuning
//
// Only this package imports the parts. session.go makes them, wiring.go says which part wakes which, and facts.go
// converts what one part knows into the types of another. To add a part, write a package, and add a line to session.go
// and one to wiring.go.
//
// A cluster may have several agents (package group). They elect a leader, and the leader does all of the above for its
// term. The others hold the same entries and forward connections from their mesh port to the leader.
//
// The local API server is the authority for what this cluster owns, and the replica for the rest. Missing information
// never counts as a deletion: a copy is deleted only when the replica proves that its origin deleted the object
// (replica.Absent).
package agent
