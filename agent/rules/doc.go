// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules joins the sync engine to the rest of the agent: it tells the engine of rules and peers, and writes what
// the engine reports to the rules' status.
//
//	rules here ──► certain? ──yes──► engine ◄── peers: connection, name, features
//	                  │                │
//	                  no               ├──► status of rules, events
//	                  ▼                └──► Secret roster-copies: where copies are
//	              unsettled ──Settle──►
//
// The engine takes a rule that it is not told of for deleted, and its copies with it. So it is told of what is certain
// only. Where a rule is gone, or older than it was, or one of this cluster's own while a restore waits for its
// confirmation, the rule is unsettled: the engine goes on by what it was told last. The publisher settles rules of this
// cluster's own, the importer those of others, once they know what has become of them.
//
// A rule whose owner is gone from the group stays where it is, as an orphan, and is not in force: what it has copied
// stays as it is. To obey it would leave a cluster that was removed with power over the others; to delete it would
// undo, all at once, what the others depend on.
//
// Locks: the engine, the listers and Options.Frozen are asked under a lock of this package; none of them may call into it.
// Hooks are called without a lock.
package rules
