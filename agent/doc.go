// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is one Roster agent: it owns every goroutine and joins the parts below it.
//
//	     local API server                       peers' API servers
//	  informers │      ▲ writes                        │ watches
//	            ▼      │                               ▼
//	┌─────────────────────────────┐   rules, peers  ┌──────────────────┐
//	│ publisher    importer       │ ──────────────► │ syncrules/engine │
//	│     │            ▲          │                 └──────────────────┘
//	│     ▼            │          │
//	│   replica  (merged entries) │
//	└─────┬────────────▲──────────┘
//	      ▼            │
//	     mesh  (pinned members only)
//
// What a cluster owns flows down on the left: an informer event names a key, the publisher reads the
// object and hands its payload to the replica, the mesh spreads the signed message. What others own flows
// up on the right: a merged message names a key, the importer compares the replica with the local object
// and writes the difference. Both are level-triggered: a key says "look again", never what happened, so an
// event that is lost or doubled changes nothing.
//
// The local API server is the authority for what this cluster owns; the replica is the authority for the
// rest. Nothing here reads "unknown" as "gone": copies are deleted only on proof (replica.Absent).
//
// Where a cluster has several agents, one of them at a time is all of this: the one that the others elected, for the
// time of its term (group.go). The others hold the entries and pass on what comes to their mesh port.
//
// A role lasts exactly as long as one function call and its context: Run is the agent, runPeer is the
// access to one peer's API server.
package agent
