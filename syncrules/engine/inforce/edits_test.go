// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// A rule stays in force that is edited, if it needs no more watches. By thousands of edits of one author no more watches are opened than some,
// and those of others stay all the same.
func TestEditedRulesStay(t *testing.T) {
	t.Parallel()
	var e Edits
	before := scopes(0, 64)
	if !e.Keep("bad", before, before) || !e.Keep("bad", before, scopes(10, 50)) || !e.Keep("bad", before, slices.Concat(scopes(0, 63), scopes(1e6, 1))) {
		t.Error("a rule that needs no more than one other watch goes")
	}
	if e.Keep("bad", before, scopes(0, 65)) {
		t.Error("a rule that needs one watch more stays")
	}
	kept := 0
	for i := range 100 {
		if e.Keep("bad", before, scopes(64*(i+1), 64)) {
			kept++
		}
	}
	if want := maxEditsOf/64 - 1; kept != want {
		t.Errorf("%d rules that need other watches stay, want %d", kept, want)
	}
	if !e.Keep("bad", before, before) || !e.Keep("c0", before, scopes(1e6, 64)) {
		t.Error("after those, a rule goes that needs the same, or one of another author")
	}
	kept = 0
	for i := range 100 { // whom it has invented
		if e.Keep(fmt.Sprint("bad-", i), before, scopes(64*(i+1), 64)) {
			kept++
		}
	}
	if most := maxEdits / 64; kept == 0 || kept >= most {
		t.Errorf("%d rules of as many authors stay, want fewer than %d", kept, most)
	}
	if e = (Edits{}); !e.Keep("bad", before, scopes(1e6, 64)) {
		t.Error("after the next decision, a rule goes that needs no more")
	}
}

func TestEdited(t *testing.T) {
	t.Parallel()
	before := map[string]string{"same": "1", "other": "1", "gone": "1"}
	now := map[string]string{"same": "1", "other": "2", "new": ""}
	edited := Edited(before, now)
	if want := map[string]bool{"other": true, "gone": true, "new": true}; !maps.Equal(edited, want) {
		t.Errorf("%v, want %v", edited, want)
	}
	if about := About(edited); about(nil) || about([]string{"same"}) || !about([]string{"same", "gone"}) || !Everything(nil) {
		t.Error("it tells what is about them from what is not")
	}
}
