// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

const (
	guardFew  = 3  // up to so many copies may be deleted even if they are all copies of the rule
	guardMany = 20 // up to so many even if they are more than half
)

// Guarded says whether the deletion guard stops a rule. absent is how many of its copies would be deleted because their
// sources are missing from a list. If that is more than 20 and more than half of the rule's copies, or all of them and
// more than 3, then something is probably wrong with the list: an API server was emptied or restored, or the endpoint is
// wrong. Deletions that were seen by a watch are proof, and do not count.
func Guarded(absent, copies int) bool {
	return absent > guardMany && 2*absent > copies || absent >= copies && copies > guardFew
}
