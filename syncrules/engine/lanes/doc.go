// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lanes keeps half of the workers for the writes that an API server is not slow to take.
//
// A lane is the copies of one kind in one namespace: what makes an API server slow to take a copy, such as an admission
// webhook that does not answer, is as a rule set up for these. Without lanes one such webhook would hold up the copies of
// all rules. The keys of slow lanes share the other half of the workers, and wait for their turn, by whose copies they are (package
// turns), and then lane by lane. That a lane is slow is known when its first slow writes are done; until then it may have all workers.
//
//	worker takes a key ── Enter ──► work ── Leave(how long the write took) ──► keys whose turn it is
//	                        └─ false: the key waits, and some Leave returns it
//
// Lanes have no lock and no clock: the caller has both.
package lanes
