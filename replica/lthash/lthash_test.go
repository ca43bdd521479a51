// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lthash

import (
	"testing"

	"pgregory.net/rapid"
)

// TestOrderDoesNotMatter: the hash is that of the elements, in whatever order they came, whatever else came and went.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Byte(), 0, 6, rapid.ID).Draw(t, "elements")
		var first, second Set
		for _, id := range ids {
			first.Add([32]byte{id})
		}
		extra := [32]byte{0, 1}
		second.Add(extra)
		for _, id := range rapid.Permutation(ids).Draw(t, "order") {
			second.Add([32]byte{id})
		}
		if first.Sum() == second.Sum() {
			t.Fatal("an element more has the same hash")
		}
		second.Remove(extra)
		if first.Sum() != second.Sum() {
			t.Fatal("the order changes the hash")
		}
	})
}
