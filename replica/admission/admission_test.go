// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAfter: each comes once, and after one that leads to it, if it is led to from the first.
func TestAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.StringMatching("[a-f]"), rapid.ID).Draw(t, "ids")
		to := rapid.MapOf(rapid.StringMatching("[a-f]"), rapid.SliceOf(rapid.StringMatching("[a-h]"))).Draw(t, "to")
		got := After(ids, func(id string) []string { return to[id] })
		if a, b := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(ids)); !slices.Equal(a, b) {
			t.Fatalf("%v became %v", ids, got)
		}
		if len(ids) == 0 {
			return
		}
		reached := map[string]bool{ids[0]: true}
		for range ids {
			for _, from := range ids {
				for _, id := range to[from] {
					reached[id] = reached[id] || reached[from] && slices.Contains(ids, id)
				}
			}
		}
		for at, id := range got {
			led := slices.ContainsFunc(got[:at], func(before string) bool { return slices.Contains(to[before], id) })
			if reached[id] && id != ids[0] && !led {
				t.Fatalf("%s is too early in %v", id, got)
			}
		}
	})
}

// TestAwaited: an origin is asked for once, and somebody who makes up many fills no memory.
func TestAwaited(t *testing.T) {
	var a Awaited
	if a.Take("a") {
		t.Error("nobody was refused")
	}
	for i := range 3 * maxAwaited {
		a.Note(fmt.Sprint(i))
	}
	if len(a.ids) > maxAwaited {
		t.Errorf("%d are remembered", len(a.ids))
	}
	a.Note("a")
	if !a.Take("a") || a.Take("a") {
		t.Error("a is not taken once")
	}
}
