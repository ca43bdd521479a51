// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removalguard

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMost(t *testing.T) {
	for members, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 2, 20: 2, 30: 3, 100: 10, 500: 50} {
		if got := Most(members); got != want {
			t.Errorf("of %d members %d are removed", members, got)
		}
	}
}

// TestMostOfFew: in groups of three and four it is the largest number below half of the members, one, as in those of five and six, where
// that would be two. By two in each no member would have another one left but who orders them.
func TestMostOfFew(t *testing.T) {
	for n := 3; n <= 200; n++ {
		below := max(1, min(max(2, n/10), (n-1)/2)) // half of all
		got := Most(n)
		if n <= 4 && got != below || got > below || n > 6 && got != below {
			t.Errorf("of %d members %d are removed, and the largest number below half gives %d", n, got, below)
		}
		// Each of the others may be told got removals, and each of those parts two of them.
		if others := n - 1; n > 4 && 2*got >= others {
			t.Errorf("of %d members each may lose all %d others", n, others-1)
		}
	}
}

// list makes members of pairs of a cluster and its parent, "" for this one.
func list(pairs ...[2]string) (members []Member) {
	for _, p := range pairs {
		members = append(members, Member{ClusterID: p[0], Parent: p[1]})
	}
	return members
}

// remove decides removals in order, and says who was removed. What is removed leaves the tree.
type world struct {
	members []Member
	charges []*Charge
	unmet   map[string]bool
}

func (w *world) tree() *Tree {
	return NewTree("self", w.members, func(id string) bool { return !w.unmet[id] })
}

func everybody(string) bool { return true }

// remove says whether the removal takes effect. Who was admitted by a member that ends stays, with that one's own parent.
func (w *world) remove(author, target string) bool {
	s := w.tree().Decide(w.charges, author, target)
	if s.Held {
		return false
	}
	for _, c := range w.charges {
		if w.tree().Belongs(c, s.Charge) {
			c.Unit = target
		}
	}
	w.charges = append(w.charges, s.Charge)
	var left []Member
	for _, m := range w.members {
		if m.Parent == target {
			m.Parent = w.tree().parents[target]
		}
		if m.ClusterID != target {
			left = append(left, m)
		}
	}
	w.members = left
	return true
}

// TestWhatIsCharged: see the package.
func TestWhatIsCharged(t *testing.T) {
	tree := NewTree("self", list([2]string{"h", ""}, [2]string{"b", ""}, [2]string{"m", "h"}, [2]string{"t", "h"}, [2]string{"y", "m"}, [2]string{"z", "y"}), everybody)
	for _, c := range []struct {
		author, target string
		to             []string
	}{
		{"y", "t", []string{"y", "m"}},
		{"z", "t", []string{"z", "m", "y"}},
		{"z", "m", []string{"z", "y"}},
		{"z", "y", []string{"z"}},
		{"z", "b", []string{"z", "h", "m", "y"}},
		{"h", "t", []string{"h"}},
		{"b", "h", []string{"b"}},
		{"t", "self", []string{"t", "h"}},
	} {
		if got := tree.charge(c.author, c.target); !slices.Equal(got.To, c.to) {
			t.Errorf("%s removes %s: charged to %v, not %v", c.author, c.target, got.To, c.to)
		}
	}
	if got := tree.Branch("m"); !slices.Equal(got, []string{"m", "y", "z"}) {
		t.Errorf("the branch of m is %v", got)
	}
}

// TestThiefRemovesFew: in groups of any size and form, two take effect at most, or one in ten; one in a small group.
func TestThiefRemovesFew(t *testing.T) {
	for n, want := range map[int]int{2: 0, 3: 1, 4: 1, 5: 1, 7: 2, 10: 2, 50: 5} { // n with this one and m
		for form, parent := range map[string]func(i int) string{
			"mesh":  func(int) string { return "" },
			"chain": func(i int) string { return map[bool]string{true: "", false: fmt.Sprint("c", i-1)}[i == 0] },
			"hub":   func(i int) string { return map[bool]string{true: "", false: "c0"}[i == 0] },
		} {
			w := &world{members: list([2]string{"m", ""})}
			for i := range n - 2 {
				w.members = append(w.members, Member{ClusterID: fmt.Sprint("c", i), Parent: parent(i)})
			}
			effective := 0
			for i := range n - 2 {
				if w.remove("m", fmt.Sprint("c", n-3-i)) {
					effective++
				}
			}
			if effective > want || form != "chain" && effective < want {
				t.Errorf("%s of %d: %d are removed", form, n, effective)
			}
		}
	}
}

// TestRemovedWithItsBranch: what an author outside removes of a branch with its head, and nobody has met, counts as one with it, in any
// order. Of those that were met each counts.
func TestRemovedWithItsBranch(t *testing.T) {
	for name, order := range map[string][]string{"head first": {"m", "y", "z"}, "head last": {"z", "y", "m"}} {
		for _, met := range []bool{false, true} {
			w := &world{members: list([2]string{"a", ""}, [2]string{"b", ""}, [2]string{"m", ""})}
			w.members = append(w.members, Member{ClusterID: "y", Parent: "m"}, Member{ClusterID: "z", Parent: "y"})
			w.unmet = map[string]bool{"y": !met, "z": !met}
			gone, with := map[string]bool{}, map[string]bool{}
			for _, target := range order {
				s := w.tree().Decide(w.charges, "a", target)
				if !s.Held {
					branch, goes := w.tree().With(s.Charge)
					for _, id := range branch {
						with[id] = goes(id)
					}
				}
				gone[target] = with[target] || w.remove("a", target)
			}
			if n := len(slices.DeleteFunc([]string{"m", "y", "z"}, func(id string) bool { return !gone[id] })); met && n != 1 || !met && n != 3 {
				t.Errorf("%s, met %t: %v", name, met, gone)
			}
		}
	}
	tree := NewTree("self", list([2]string{"m", ""}, [2]string{"y", "m"}, [2]string{"z", "m"}), everybody)
	if got, _ := tree.With(tree.charge("m", "unknown")); len(got) > 0 {
		t.Errorf("with a cluster that is not here goes %v", got)
	}
	if got, _ := tree.With(tree.charge("y", "m")); len(got) > 0 {
		t.Errorf("y removes who brought it, with %v", got)
	}
}

// TestRefused: a cluster takes itself for removed when most others do, not counting whom the author may have invented.
func TestRefused(t *testing.T) {
	tree := NewTree("self", list([2]string{"m", ""}, [2]string{"a", ""}, [2]string{"b", ""}, [2]string{"y1", "m"}, [2]string{"y2", "m"}, [2]string{"y3", "y2"}), everybody)
	for _, c := range []struct {
		author string
		by     []string
		want   bool
	}{
		{"m", []string{"m", "y1", "y2", "y3"}, false},
		{"y1", []string{"m", "y1", "y2", "y3"}, false},
		{"m", []string{"m", "a"}, false},
		{"m", []string{"a", "b"}, true},
		{"a", []string{"a", "m", "b", "y1"}, true},
	} {
		if got := tree.Refused(c.author, func(id string) bool { return slices.Contains(c.by, id) }); got != c.want {
			t.Errorf("removed by %s, refused by %v: %t", c.author, c.by, got)
		}
	}
	pair := NewTree("self", list([2]string{"m", ""}), everybody)
	if pair.Refused("m", func(string) bool { return false }) || !pair.Refused("m", func(string) bool { return true }) {
		t.Error("of two, the other one decides")
	}
}

// TestWhoeverIsToldWhat: each of a group is told in another order to remove the others, and what two have left of each other is not
// nothing where the group has five or more.
func TestWhoeverIsToldWhat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(5, 12).Draw(t, "members") // with m
		lost := map[[2]int]bool{}
		for at := range n - 1 {
			w := &world{members: list([2]string{"m", ""})}
			var others []int
			for i := range n - 1 {
				if i != at {
					others = append(others, i)
					w.members = append(w.members, Member{ClusterID: fmt.Sprint("c", i), Parent: ""})
				}
			}
			for _, target := range rapid.Permutation(others).Draw(t, "order") {
				if w.remove("m", fmt.Sprint("c", target)) {
					lost[[2]int{at, target}] = true
				}
			}
		}
		pairs := 0
		for a := range n - 1 {
			for b := range a {
				if !lost[[2]int{a, b}] && !lost[[2]int{b, a}] {
					pairs++
				}
			}
		}
		if pairs == 0 {
			t.Fatalf("of %d, none has another one left", n)
		}
	})
}

// TestWhateverIsInvented: members below m, of which more come all the time, remove the others in any order. No more are removed than
// m alone could, and what is decided once is decided again.
func TestWhateverIsInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{members: list([2]string{"m", ""}), unmet: map[string]bool{}}
		honest := rapid.IntRange(1, 12).Draw(t, "honest")
		for i := range honest {
			parent := ""
			if i > 0 && rapid.Bool().Draw(t, "below") {
				parent = fmt.Sprint("c", rapid.IntRange(0, i-1).Draw(t, "parent"))
			}
			w.members = append(w.members, Member{ClusterID: fmt.Sprint("c", i), Parent: parent})
		}
		most, authors := Most(honest+2), []string{"m"}
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "invent") {
				id := fmt.Sprint("y", i)
				w.unmet[id] = rapid.Bool().Draw(t, "unmet")
				w.members = append(w.members, Member{ClusterID: id, Parent: rapid.SampledFrom(authors).Draw(t, "admits")})
				authors = append(authors, id)
				continue
			}
			author, target := rapid.SampledFrom(authors).Draw(t, "author"), fmt.Sprint("c", rapid.IntRange(0, honest-1).Draw(t, "target"))
			if !w.tree().Has(target) {
				continue
			}
			before := w.tree().Decide(w.charges, author, target)
			if again := w.tree().Decide(w.charges, author, target); again.Held != before.Held {
				t.Fatal("decided otherwise")
			}
			w.remove(author, target)
		}
		if len(w.charges) > most {
			t.Fatalf("%d of %d are removed", len(w.charges), honest)
		}
	})
}
