// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules connects the sync engine (syncrules/engine) to the rest of the agent: it passes rules and peers to the
// engine, and writes what the engine reports to the status of rules.
//
//	rules here ──► certain? ──yes──► engine ◄── peers: connection, name, features
//	                  │                │
//	                  no               ├──► status of rules, events
//	                  ▼                └──► Secret roster-copies: where copies are
//	              unsettled ──Settle──►
//
// If the engine does not know a rule, it takes it for deleted, and deletes its copies. So it only gets what is certain.
// A rule is unsettled while it is gone, or older than before, or one of this cluster's own while a restore waits for
// its confirmation; the engine keeps its last state of that rule. The publisher settles the rules of this cluster, and
// the importer those of others, once they know what has become of them.
//
// A rule whose owner is gone from the group stays as an orphan and is paused: its copies stay as they are. If it stayed
// in force, a cluster that was removed would keep its power over the others. If it were deleted, everything that others
// depend on would go at once.
//
// Wiring calls RuleChanged for each change in the informers, PeerChanged for a peer, and Ready once, after the first
// complete list.
//
// Locks: this package calls the engine, the listers and Options.Frozen with its lock held, so none of them may call
// into it. Hooks are called without a lock.
package rules
