// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"slices"
	"testing"
)

// A rule stays in force that is edited, if it needs no more watches. By thousands of edits no more watches are opened than some.
func TestEditedRulesStay(t *testing.T) {
	t.Parallel()
	var e Edits
	before := scopes(0, 256)
	if !e.Keep(before, before) || !e.Keep(before, scopes(10, 200)) || !e.Keep(before, slices.Concat(scopes(0, 255), scopes(1e6, 1))) {
		t.Error("a rule that needs no more than one other watch goes")
	}
	if e.Keep(before, scopes(0, 257)) {
		t.Error("a rule that needs one watch more stays")
	}
	kept := 0
	for i := range 100 {
		if e.Keep(before, scopes(256*(i+1), 256)) {
			kept++
		}
	}
	if want := maxEdits/256 - 1; kept != want {
		t.Errorf("%d rules that need other watches stay, want %d", kept, want)
	}
	if !e.Keep(before, before) {
		t.Error("after those, a rule goes that needs the same")
	}
	if e = (Edits{}); !e.Keep(before, scopes(1e6, 256)) {
		t.Error("after the next decision, a rule goes that needs no more")
	}
}
