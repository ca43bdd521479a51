// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard is the deletion guard of one rule: when so many of its copies lack their sources that more likely
// something is wrong with a list, nothing of them is deleted until a person confirms it or the sources are back.
//
//		               what is known of an owner is complete ── Judge(owner)
//		                                                            │
//		source is not in a list, no deletion was seen ── Lack ──► lacking ──┐
//		the same, but somebody set the copy aside ────── Lack ──► kept ─────┼─ Decide ──► stopped: all copies of the rule,
//		source is back, or the copy is gone ──────────── Clear              │            or those of some owners
//		an annotation on the rule (Confirmation) ──────────────────────────┘
//
//	  - Nothing is concluded of an owner before it is judged: since the rule has had its present selection, everything that
//	    the owner has for it was known once. Doubt ends that.
//	  - Lacking copies of one owner, or of all, may be too many (syncrules.Guarded). Kept ones count as lacking: who keeps one
//	    of four copies would lose three.
//	  - A confirmation allows so many deletions, once. It is used up when they are done, and the status says so.
//	  - A rule whose selection is edited while it is stopped is suspect: its edit is no reason to believe what was missing.
//	    The copies that it lets go of count, too, until nothing is missing any more.
//
// A Guard has no lock and no clock: the caller has both.
package guard
