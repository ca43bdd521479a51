// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissions joins the admissions that the replica holds with the table of pinned keys (package mesh/trust).
//
// An admission is an entry like a rule: its origin is the member that admits, its name the clusterID of who is admitted, and its
// payload that one's key. So it is signed, numbered, forwarded also by members of earlier versions, kept on disk, taken back
// by its origin, and gone when its origin leaves or is removed. A member publishes one for each cluster that a person admitted
// there, and a cluster that no person here admitted is pinned on the word of a member that published one:
//
//	a person in h: swap with n ──► h pins n ──► h publishes the admission ──┐
//	n's Cluster object ──► h ──► the others: refused, no admission yet      ├──► the others pin n
//	                             fetched again when the admission comes ◄───┘
//
// Pins stay when an admission ends. So that a cluster which joins later learns of all members, the member that admits it
// answers for those that no admission leads to any more. Who removes a member that had admitted them, and keeps them, answers for
// them on nobody else's word.
package admissions
