// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota bounds how much is written to the local API server because of one cluster, and lets what exceeds that wait
// for its turn.
//
//	key to be written ── May ──► write ── Spend
//	                       └─ false: Wait ──► Next says when to look at which key again
//
// Each cluster has an account (AccountOf) with a number of bytes and a number of writes. Both are used up by Spend and grow
// back at a rate. A write may begin while something of both is left, whatever its size: so an account is overdrawn by as
// many writes as are under way at most, and waits for that afterwards.
//
// What waits is a key, not a content: when its turn comes, it is looked at again, and the newest content is written. Keys of
// an account wait in one line, in the order in which they came, and no account waits for another. A turn is a permission, not
// a place in front: the next key is called while the one before is still being written, as far as the account allows. The caller looks at a key
// again when Next says so, or earlier for reasons of its own; a key that needs no write any more leaves the line by Drop.
//
// What is written stays: a Stock bounds how much that becomes.
//
// A Quota has no lock and no clock: the caller has both.
package quota
