// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is the copies that wait for a decision, and those that are being decided on. It knows of which kinds there are any: while there are, it is
// not said of a rule that all is as it should be.
//
// Copies have turns (package turns): what one cluster has changed all the time, or has its rules make of what others have, does not hold up the copies of others.
//
//	Enqueue ──────► lines ──► worker ── InTurn ──► work
//	EnqueueAfter ─► front ──────┘         └─ false: others wait. The key goes to the end of its line
//
// A key waits in a line of those because of whom it is put up, and of several in the one where the fewest come before it. So nobody has a key of others wait behind
// his own.
//
// Whose a key is, is asked when it is put up, since that may only be asked with the engine's lock. A delay ends without that lock. So workers take such a key
// first, to find it out. What waits elsewhere (package lanes) is parked: it is not put up until its turn there has come, and then it goes to the front.
package queue
