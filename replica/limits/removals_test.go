// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"testing"
)

// TestOneBranchLeavesRoomForRemovals: whatever form the clusters have that a member makes up, what is said of them takes four
// fifths of the room at most, also of those that have ended; and each other branch, and what nobody is known to say, has room beside it.
func TestOneBranchLeavesRoomForRemovals(t *testing.T) {
	const total = 1024
	for form, by := range map[string]func(i int) string{
		"itself":       func(int) string { return "bad" },
		"side by side": func(i int) string { return fmt.Sprint("x", i) },
		"a chain":      func(i int) string { return fmt.Sprint("x", i) },
		"who is gone":  func(i int) string { return fmt.Sprint("gone", i) },
	} {
		r := NewRemovals(total, "self")
		r.ShareBy(func(id string) string {
			var i int
			switch n, _ := fmt.Sscanf(id, "x%d", &i); {
			case n == 1 && form == "a chain" && i > 0:
				return fmt.Sprint("x", i-1)
			case n == 1:
				return "bad"
			case id == "bad", id == "honest":
				return "hub"
			case id == "hub", id == "other":
				return "self"
			}
			return "" // it has ended
		})
		for i := range total { // who brought those that have ended
			r.introducer[fmt.Sprint("gone", i)] = "bad"
		}
		for i := range 2 * total {
			if of := by(i % total); r.Fits(of) {
				r.Put(Removal{Removed: fmt.Sprint("r", i), Author: of})
			}
		}
		if r.sum > total*4/5 || r.sum < total*3/5 && form != "a chain" { // of which the end finds no room
			t.Errorf("%s: %d of %d are taken", form, r.sum, total)
		}
		for i := range total / 32 {
			for _, of := range []string{"honest", "hub", "other"} {
				if !r.Fits(of) {
					t.Fatalf("%s: %d of %s find no room", form, i, of)
				}
				r.Put(Removal{Removed: fmt.Sprint(of, i), Author: of})
			}
		}
		if r.Reshare(); form != "a chain" && (r.Fits("bad") || r.Fits("x0")) {
			t.Errorf("%s: there is room for more of it", form)
		}
	}
}

// TestUnknownAuthorsAreOneBranch also where they are brought by many.
func TestUnknownAuthorsAreOneBranch(t *testing.T) {
	r := NewRemovals(64, "self")
	for i := range 64 {
		n := Removal{Removed: fmt.Sprint(i), Author: fmt.Sprint("a", i), Voucher: fmt.Sprint("v", i%8), Sponsor: fmt.Sprint("v", i%8)}
		if r.Fits(n.Branch()) {
			r.Put(n)
		}
	}
	if r.sum != 51 || r.Sponsored("v0") != 7 || !r.Fits("a") || !r.Fits("self") {
		t.Errorf("%d are held, and %d of one", r.sum, r.Sponsored("v0"))
	}
	n := Removal{Removed: "0", Author: "a0", Voucher: "v0", Sponsor: "v0"}
	r.Drop(n)
	if r.sum != 50 || r.Sponsored("v0") != 6 || !r.Fits(n.Branch()) {
		t.Errorf("%d are held when one is gone", r.sum)
	}
	for _, id := range []string{"c", "d"} { // each is said to be above the other
		r.introducer[id] = map[string]string{"c": "d", "d": "c"}[id]
	}
	r.ShareBy(func(string) string { return "" })
	if path := r.path("c"); path[0] != nobody {
		t.Errorf("a circle is %v", path)
	}
}
