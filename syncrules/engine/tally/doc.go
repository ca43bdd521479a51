// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tally adds up what became of copies: of each rule (Tally), for its status, and what happened lately (Events), for
// its events.
//
//	Result of a copy ── Add(+1), Add(-1) when another takes its place ──► Tally of each of its rules
//	what happened ── Events.Add ──► Events.Due: one Event for many copies, each seldom
//
// The numbers of a Tally are always those of the results that were added and not taken away. Of their texts it keeps the
// newest, and of each reason one while it can.
//
// Nothing here has a lock or a clock: the caller has both.
package tally
