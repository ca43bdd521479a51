// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
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
	for _, id := range []string{"c", "d"} {
		if r.Put(Removal{Author: id}); r.Fits(id) {
			t.Errorf("there is room for more of %s, of a circle", id)
		}
	}
	if in := r.places[nobody].branch.size; in != 52 {
		t.Errorf("%d of %d are of nobody", in, r.sum)
	}
}

// below has c1 right below self, c2 below c1 and so on, and beside each what else is brought by the one above it: c2.x is below c1.
func below(id string) string {
	var at int
	if _, err := fmt.Sscanf(id, "c%d", &at); err != nil || at == 1 {
		return "self"
	}
	return fmt.Sprint("c", at-1)
}

// TestChainsFindRoom: where each cluster was brought by the one before it, or each has brought some more, the last one has room as well,
// and all above it have, whatever the last one does.
func TestChainsFindRoom(t *testing.T) {
	const total, depth = 16384, 100
	for name, test := range map[string]struct {
		by   []string // what is counted for each level
		each int
		at   int // who has many, if anybody
		many int
	}{
		"nothing is held":            {},
		"one has left many":          {at: 39, many: 200},
		"each has removed some":      {by: []string{""}, each: 8},
		"each is a hub":              {by: []string{"", ".x", ".y", ".z"}, each: 2},
		"the last one makes up many": {at: depth, many: total},
		"all below the last do":      {at: 10 * depth, many: total},
		"hubs, and a flood":          {by: []string{"", ".x", ".y"}, each: 1, at: depth, many: total},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRemovals(total, "self")
			r.ShareBy(below)
			put := func(id string) bool {
				fits := r.Fits(id)
				if fits {
					r.Put(Removal{Author: id})
				}
				return fits
			}
			for level := 1; level <= depth; level++ {
				for _, suffix := range test.by {
					for range test.each {
						if id := fmt.Sprint("c", level, suffix); !put(id) {
							t.Fatalf("%s finds no room beside %d", id, r.sum)
						}
					}
				}
			}
			for i := range test.many {
				if !put(fmt.Sprint("c", test.at)) {
					if need := map[int]int{depth: 480, 10 * depth: 300}[test.at]; test.many < total || test.by == nil && i < need || i < 100 {
						t.Fatalf("the %d. of c%d finds no room", i, test.at)
					}
					break
				}
			}
			if r.sum > total/4 {
				t.Errorf("%d are taken", r.sum)
			}
			for level := depth; level > 0; level-- {
				flood := level == depth && test.many == total
				if fits := put(fmt.Sprint("c", level)); fits == flood && test.at <= depth {
					t.Errorf("c%d finds room: %t", level, fits)
				}
				if id := fmt.Sprint("c", level, ".new"); !put(id) {
					t.Errorf("%s finds no room", id)
				}
			}
		})
	}
}

// TestCountIsRight: what is counted as it comes and goes is what a count of all comes to.
func TestCountIsRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const clusters = 2 * maxLevel
		name := func(i int) string { return [...]string{"self", fmt.Sprint(i)}[min(i, 1)] }
		tree := map[string]string{}
		r := NewRemovals(1<<20, "self")
		r.ShareBy(func(id string) string { return tree[id] })
		for i := 1; i < clusters; i++ {
			tree[name(i)] = name(i - 1)
		}
		cluster := rapid.IntRange(1, clusters-1)
		var held []Removal
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := cluster.Draw(t, "cluster")
			other := name(rapid.IntRange(0, i-1).Draw(t, "above"))
			switch rapid.SampledFrom([]string{"put", "left", "drop", "move", "fits"}).Draw(t, "step") {
			case "put":
				held = append(held, Removal{Removed: "x", Author: name(i)})
				r.Put(held[len(held)-1])
			case "left":
				delete(tree, name(i))
				held = append(held, Removal{Removed: name(i), Introducer: other})
				r.Put(held[len(held)-1])
			case "drop":
				if len(held) > 0 {
					r.Drop(held[0])
					held = held[1:]
				}
			case "move":
				tree[name(i)] = other
				r.Reshare()
			case "fits":
				r.Fits(name(i))
			}
		}
		r.Fits("self")
		again := r
		again.Reshare()
		again.Fits("self")
		for i := 1; i < clusters; i++ {
			if got, want := r.branch(name(i)), again.branch(name(i)); got.size != want.size || got.level != want.level {
				t.Fatalf("%d is %+v, and counted again %+v", i, got, want)
			}
		}
	})
}
