// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine turns watched sources into local writes, by the decisions of package syncrules.
//
//	peers' Sources ─► views (what matches at a peer) ─┐            ┌─► Target (one request)
//	local Source ───► copies (what carries an owner) ─┼─► queue ─► worker: gather, render, plan
//	rules, peers, targets ────────────────────────────┘            └─► results ─► Report
//
// # Who does what
//
// One supervisor (Run) makes the running watches be the wanted ones: one view per peer and scope, shared by
// all rules that need it, and one per scope of local copies. Sinks take what the watches deliver and put the
// keys of the copies concerned into the queue. A key is worked on by one worker at a time, always from what
// is known at that moment; so the order of events of one object does not matter, and any number of them
// costs one write. The one mutex of Engine guards all state and is never held across a call outward.
//
// # What is known, and what is not
//
// Every conclusion from absence needs proof:
//
//   - Nothing is decided before Ready: until then rules have merely not been told yet.
//   - A copy is decided on after the list of local copies in its scope was complete once.
//   - An object that a view lacks is gone only while the view is live and was delivered under the rule's
//     present matches; after an outage that means after the next complete list.
//   - A peer that was never told, or whose features are not known, is unknown; only RemovePeer and
//     Peer.Left say that it is gone.
//
// A rule that was edited is told apart from a source that changed in this way: when a view is complete for
// the first time after the matches were edited, those copies that it lacks are attributed to the edit
// (ruleDeletionPolicy); what goes later is attributed to the source (deletionPolicy). While the process
// lives the old and new spec are compared. Across a restart status.observedGeneration serves: where it equals
// the generation, the copies had been judged by this spec, so what is lacking went at the source; else it is
// put down to the edit. RuleReport.ObservedGeneration is therefore held back until every copy of the rule was
// judged; the conditions carry the generation at once.
//
// # The guard
//
// When a view turns live, the copies that it lacks without a deletion having been seen are counted for each
// rule (syncrules.Guarded). Too many, and the rule is paused here until the objects are back or the local
// annotation syncrules.AnnotationConfirmDeletions on the rule names at least that number.
//
// # Speed and memory
//
// Objects are kept as compact JSON, only those that match, and are decoded for the moment of a decision.
// Each object has its own pace (PaceRate, PaceBurst) and its own back-off; nothing limits all of them together but
// the number of workers.
package engine
