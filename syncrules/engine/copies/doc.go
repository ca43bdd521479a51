// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package copies keeps what is known of the copies in the local cluster: what each of them carries (Copy), and all of
// them by kind, name, owner, rule and source (Index).
//
// The indexes make what is asked follow what it is about, and not how many copies there are. They are kept by Put and Drop
// alone. What a Copy is indexed by is never changed afterwards; Unseen, Tolerated, Accepted and Dropped are not among that.
//
// Nothing here has a lock or a clock: the caller has both. An Index that lacks a kind has no copies of it.
package copies
