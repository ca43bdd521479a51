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
// One supervisor (Run) makes the running watches be the wanted ones: one view per peer and scope, shared by all rules that need it, and one per
// scope of local copies. It looks at the kinds and peers that changed, and at no others. Sinks take what the watches deliver and put the keys of the
// copies concerned into the queue. A key is worked on by one worker at a time, always from what is known at that moment; so the order of events of
// one object does not matter, and any number of them costs one write.
//
// The one mutex of Engine guards all state and is never held across a call outward but Options.Share and Parent. What ends in Locked is called with
// it held. What is done under it follows what an event is about, not how many peers, views and copies there are: by indexes of entries by the place
// of their copies (index.go) and of copies by owner (package copies). A decision asks the copy's owner and the peers that have an entry for the
// place, nobody else. From an event to the written copy the mutex is taken four times: for the event, to gather, to record, and when the watch tells
// of the copy. An update is matched once, when the Source asks whether to keep it.
//
// # Parts
//
// What can be decided without asking anybody is in packages below this one. They have no lock, get the time as an argument, and are tested alone:
//
//	place       keys of objects, and scopes of watches
//	copies      what is known of the copies here, with its indexes
//	guard       the deletion guard of a rule
//	inforce     which rules are in force, and which watches are opened, where there are too many
//	bounds      how much may be held, by the memory limit
//	selections  which rules ask for nothing of a cluster, where many select the same objects
//	lanes       which keys may be worked on while some writes are slow
//	turns       who comes next of those that wait, by who admitted whom
//	pace        when a copy may be written, and tried again
//	quota       how much may be written because of one cluster
//	tally       what the results of a rule add up to, and its events
//	problem     what an error means, and what may be said about it
//
// Package rights, which reviews the agent's rights, has a lock of its own that nothing is called with; package memory, which counts what is held of
// all peers, one that only Options.Share is called with. Three have the engine's: package queue knows which keys wait for a decision, and whose turn it is, package namespaces
// which namespaces copies wait for, agents created, and rules select, and package conflicts what is in the way of copies. Which conclusion follows from what is known about a copy is code of
// package syncrules (Evidence, Plan), and agentctl explains with it. What stays here is asking: supervise.go and views.go open watches, view.go and
// local.go take in what they say, gather.go and claim.go collect what is known about one copy, work.go and write.go act, results.go records. An edit has the keys put
// up that are about its rule: whoever changes what a rule says of its copies calls staleRuleLocked.
//
// # Where a copy belongs
//
// A Key is the place of a copy. Views are kept by the places of sources, and rules are found by the kind of their sources (readers of a kind) and by
// the kinds of their copies (writers). Where a rule may rename, move or change the kind of what it copies, each entry knows where its copies belong
// (place.Destinations), and each copy where its source is (copies.Copy.MovedFrom), from its own marks; both are nil for everything that stays in its place.
// findLocked joins the two. A source that is there, but whose copy belongs elsewhere, is proof that it is gone from here: the old copy is deleted
// and the new one is made, each on its own.
//
//   - A rule may make copies of one source in all namespaces that it selects. They are one destination, a Key that
//     stands for many places (fanout.go); whether a namespace is selected is asked for each decision about a copy in it.
//   - Of several sources of one cluster for one place, the one that the copy was made from keeps it, else the
//     first by kind, namespace and name has it. The others are a conflict, and change nothing.
//   - A source of which it cannot be told where its copy belongs leaves the copies that it has as they are.
//   - Only the local watches of the kinds and namespaces that rules may write are looked at, and there only what
//     carries the marks of a rule.
//   - Whether a kind is in namespaces here decides on the place of a copy. It is asked for (scoping.go) before a
//     rule that moves anything is obeyed. That a rule selects a kind outside namespaces by namespaces alone is an
//     error of the rule.
//   - What templates may see of Cluster objects (snapshot.go) is part of what makes a copy. When it changes, places
//     and copies are worked out anew, by rules that read it.
//
// # What is known, and what is not
//
// Every conclusion from absence needs proof:
//
//   - Nothing is decided before Ready: until then rules have merely not been told yet.
//   - A copy is decided on after the list of local copies in its scope was complete once.
//   - An object that a view lacks is gone only while the view is live and was delivered under the rule's
//     present selection; after an outage that means after the next complete list.
//   - A peer that was never told, or whose features are not known, is unknown; only RemovePeer and
//     Peer.Left say that it is gone.
//
// A rule that was edited is told apart from a source that changed by what the copy carries: the selection of each rule that made it
// (syncrules.AnnotationSelections). A source that is lacking although the rule had selected it in its present form went at the source
// (deletionPolicy); else it is put down to the edit (ruleDeletionPolicy). Copies that an edit keeps are written once more, with the new selection.
// So nothing about this need be remembered, and a restart at any moment makes no difference.
//
// # The guard
//
// When all views that a rule has of a peer are live, the copies of the peer that they lack without a deletion having been seen are counted (package
// guard); while one is not, what was counted last holds. Too many of all copies, and the rule is stopped here; too many of one peer's, and what it
// has of that peer is. That is until the objects are back or the local annotation syncrules.AnnotationConfirmDeletions on the rule names at least
// that number. It is used up when they are deleted, and the rule's status says so: a crash in the two seconds before that is written is the one case
// in which it would count again. With Options.GuardLive deletions that are seen count as well, together with those of the last minute that were
// acted on.
//
// # Objects that are here already
//
// An object without the marks of a copy is never touched. Where it has what the copies would bring, all is well; that is how it is in clusters which
// get the same objects from the same place. Such objects are watched, one by one or, where a kind has many, in the scopes of those rules that move
// nothing, and of each only a hash is kept. It is read once for each form of it, and of what is offered in its place (package conflicts).
//
// # What was written, and what was not
//
// A write that fails has a reason (package problem), its own back-off, and a sentence that says what to do about it (conditions.go). Events sum up
// what happened, seldom (events.go); reviews of rights only explain (package rights). A namespace that is missing is created where the rule wants
// that, and a copy of some kinds is made anew when a field has changed that cannot be (write.go).
//
// # Speed and memory
//
// Objects are kept as compact CBOR, only those that match, and are decoded for the moment of a decision. What one peer may have us hold is bounded,
// for one view and for all (Bounds.View, Bounds.Peer), and so is what all peers together may (Bounds.All, package memory), counted also while a
// Source collects a list. Beyond it the watch is ended and tried again much later; meanwhile the view is not live, so its copies stay as they are,
// and the rule says SourceTooLarge (limits.go). It is the same with watches that are too many (Bounds.Watches, places.go).
//
// Each object has its own pace and its own back-off (package pace). The writes for all clusters together are limited by nothing but the number of
// workers, half of which are kept from what an API server is slow to take (package lanes); and what failed is tried again at a rate for all. What is
// written because of one source cluster is bounded (package quota): what exceeds that waits for its turn, and then the newest content is written.
// Deletions never wait. How much all copies become is bounded, too (Bounds.Copies): one that has no room is a problem of that copy (TooManyCopies).
//
// # A restored API server
//
// The engine does not look for it. A Source that finds that its API server went back in time says so as an error of Health and states nothing of the
// new history until that is confirmed; for the engine the view is not live, and its copies are frozen. A rule that a restore of the local API server
// may have undone is not set until it is certain.
package engine
