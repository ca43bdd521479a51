// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"slices"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// maxEdits is how many watches that were not decided about are opened because rules in force of one author are edited.
const maxEdits = MaxViews / 8

// Edits lets rules that are edited stay in force until Decide is asked again, so that not all of their watches end and are begun anew.
type Edits struct{ watches map[string]int } // by author, that its rules need now and did not before

// Keep says that a rule in force of an author stays in force until then: it needs no more watches than before, and of others only some. All rules of an author may have needed the same watches, and each may need others now.
func (e *Edits) Keep(author string, before, now []place.Scope) bool {
	others := 0
	for _, s := range now {
		if !slices.Contains(before, s) {
			others++
		}
	}
	if len(now) > len(before) || e.watches[author]+others > maxEdits {
		return false
	}
	if others > 0 {
		if e.watches == nil {
			e.watches = map[string]int{}
		}
		e.watches[author] += others
	}
	return true
}
