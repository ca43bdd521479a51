// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

const (
	guardFew  = 3  // so many copies may go even when they are all
	guardMany = 20 // so many may go even when they are most
)

// Guarded says that so many of a rule's copies would be deleted because their sources are absent from a list
// that more likely something is wrong with the list (an emptied or restored API server, a wrong endpoint):
// more than 20 that are more than half of the rule's copies, or all of them when there are more than 3.
// Deletions that were seen live are proof and do not count.
func Guarded(absent, copies int) bool {
	return absent > guardMany && 2*absent > copies || absent >= copies && copies > guardFew
}
