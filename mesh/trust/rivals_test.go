// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestTheFirstPinStays: of two keys that members admit a cluster under, the one that is pinned stays, whichever admission is heard first, and
// the other one is listed; where both are admitted before the cluster comes, so is the one that did not come first.
func TestTheFirstPinStays(t *testing.T) {
	keys := testKeys(5)
	admitted := []Admission{{Author: "h", ClusterID: "a", PublicKey: keys[3]}, {Author: "m", ClusterID: "a", PublicKey: keys[4]}}
	rapid.Check(t, func(t *rapid.T) {
		table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
		if err := errors.Join(table.Pin("h", keys[1]), table.Pin("m", keys[2])); err != nil {
			t.Fatal(err)
		}
		first := -1
		steps := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "order")
		for _, step := range steps {
			of := step % 2
			if step < 2 {
				table.Admit(admitted[of])
				continue
			}
			err := table.Introduce("a", admitted[of].PublicKey, admitted[of].Author)
			if err == nil && first < 0 {
				first = of
			}
			if (first >= 0 && first != of) != errors.Is(err, ErrPinned) {
				t.Fatalf("%v, and %d came first", err, first)
			}
		}
		rivals := table.Rivals()
		if first < 0 {
			if len(rivals) > 0 {
				t.Fatalf("none is pinned, and %v are others", rivals)
			}
			return
		}
		if !table.IsPinned("a", admitted[first].PublicKey) || len(rivals) != 1 || rivals[0].Author != admitted[1-first].Author {
			t.Fatalf("%d came first, and the others are %v", first, rivals)
		}
	})
}

// TestNoRivals: who may admit nobody, an old key of the cluster, and who says the same are none.
func TestNoRivals(t *testing.T) {
	keys := testKeys(6)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	if err := errors.Join(table.Pin("h", keys[1]), table.PinEdge("e", keys[2]), table.Pin("a", keys[3])); err != nil {
		t.Fatal(err)
	}
	for author, key := range map[string]int{"h": 3, "e": 4, "stranger": 4, "a": 4} {
		table.Admit(Admission{Author: author, ClusterID: "a", PublicKey: keys[key]})
	}
	if got := table.Rivals(); len(got) > 0 {
		t.Errorf("they are %v", got)
	}
	table.Admit(Admission{Author: "h", ClusterID: "a", PublicKey: keys[5]})
	if got := table.Rivals(); len(got) != 1 {
		t.Errorf("they are %v", got)
	}
	table.Remove("a", keys[5], nil, true)
	if got := table.Rivals(); len(got) > 0 {
		t.Errorf("they are %v", got)
	}
}
