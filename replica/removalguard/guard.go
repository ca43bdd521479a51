// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removalguard decides which removals take effect, and which are held until a person confirms them. It is pure.
//
// Any member removes any cluster. Of the removals that one member orders, and those that it brought into the group do, few take
// effect in another cluster before a person there confirms them:
//
//	here ──► h ──► m ──► y      y removes t, which is h's: charged to y and to m, not to h, whose branch t is in
//	         └───► t
//
// So a stolen key ends few memberships, whatever it invents.
package removalguard

import (
	"cmp"
	"slices"
)

// Standing is what has become of a removal here. The zero value is in effect, and counts for nothing: this cluster ordered it, a
// person confirmed it, or an earlier version carried it out.
type Standing struct {
	Held   bool    `json:"held,omitempty"`   // nothing has ended by it
	Charge *Charge `json:"charge,omitempty"` // of one in effect that nobody has confirmed
}

// Charge is what a removal in effect counts for. It is never changed in place.
type Charge struct {
	// Unit is the clusterID that was removed, or the head of the branch that it was removed with: they count once.
	Unit string `json:"unit"`
	// To is the author, and the heads of those branches on the way to it that Unit is not in, the nearest first.
	To []string `json:"to"`
	// Above are, where nobody here has met the removed cluster, the heads of the branches that it was in.
	Above []string `json:"above,omitempty"`
	// Branch are those that were there because of Unit, and go with it: see Tree.With.
	Branch []string `json:"branch,omitempty"`
}

func (c *Charge) author() string { return c.To[0] }

// maxHeads bounds the heads of a charge: those nearest to this cluster say most, since others are below them.
const maxHeads = 8

// Most is how many removals that nobody confirmed take effect, in a group of so many members: two or a tenth; at least one. Two
// members lose each other when either removes the other, and each may be told to remove others: it is less than half of those that
// are neither the member itself nor the author, or nobody would have another one left.
func Most(members int) int { return max(1, min(max(2, members/10), (members-3)/2)) }

// Member is a cluster in the tree of admissions.
type Member struct {
	ClusterID, Parent string
	Ended             bool // it is no member any more, and led to some: what is below it is charged to it still
}

// Tree is who admitted whom, as one member sees it. It does not change.
type Tree struct {
	self    string
	parents map[string]string
	met     func(id string) bool
	below   map[string]int // how many are in the branch of each, with itself
	all     []string       // each after its parent
	ordered []string       // those that are members
}

// NewTree returns the tree of a member. Of all others it is told the parent, and of each after its parent; "" is the member itself. met
// says whether the agent of a member was ever in contact with this one.
func NewTree(self string, members []Member, met func(id string) bool) *Tree {
	n := len(members)
	t := &Tree{self, make(map[string]string, n), met, make(map[string]int, n), make([]string, 0, n), make([]string, 0, n)}
	for _, m := range members {
		parent := cmp.Or(m.Parent, self)
		if _, there := t.parents[parent]; !there && parent != self {
			parent = self
		}
		t.parents[m.ClusterID] = parent
		if t.all = append(t.all, m.ClusterID); !m.Ended {
			t.ordered = append(t.ordered, m.ClusterID)
			t.below[m.ClusterID]++
		}
	}
	for _, id := range slices.Backward(t.all) {
		t.below[t.parents[id]] += t.below[id]
	}
	return t
}

// Has says whether a cluster is another member, or was one, and led to some.
func (t *Tree) Has(id string) bool {
	_, ok := t.parents[id]
	return ok
}

// Way lists the heads of the branches that a member is in, itself last.
func (t *Tree) Way(id string) (heads []string) {
	for at := id; t.Has(at); at = t.parents[at] {
		heads = append(heads, at)
	}
	slices.Reverse(heads)
	return heads
}

// Branch lists a member and those that are there because of it.
func (t *Tree) Branch(head string) (ids []string) {
	in := map[string]bool{head: true}
	for _, id := range t.all {
		in[id] = in[id] || in[t.parents[id]]
	}
	return slices.DeleteFunc(slices.Clone(t.ordered), func(id string) bool { return !in[id] })
}

// charge is what a removal of target by author counts for. Of a target that is not here, all heads on the way are charged.
func (t *Tree) charge(author, target string) *Charge {
	to, above := t.Way(author), t.Way(target)
	common := 0
	for common < min(len(to), len(above)) && to[common] == above[common] {
		common++
	}
	if to = to[common:]; len(to) > 0 && to[len(to)-1] == author {
		to = to[:len(to)-1]
	}
	if t.met(target) {
		above = nil
	}
	return &Charge{Unit: target, To: append([]string{author}, to[:min(len(to), maxHeads)]...), Above: above[:min(len(above), maxHeads)]}
}

// limit is how many removals count for a head before those of such a target are held; gone is how many do, whose clusters are members
// no more. Who is in the branch of a head does not count as a member, or a head would invent some; if the target is, that cannot be,
// and two is most.
func (t *Tree) limit(head, target string, gone int) int {
	members := len(t.ordered) + 1 + gone
	if slices.Contains(t.Way(target), head) {
		return min(2, Most(members))
	}
	return Most(members - t.below[head] + 1)
}

// Decide says what becomes of a removal of target, another cluster, by author, another member, beside those that are in effect. Those
// that take along what it was to be removed with count as one with it.
func (t *Tree) Decide(charges []*Charge, author, target string) Standing {
	c := t.charge(author, target)
	for _, head := range c.To {
		units := map[string]bool{}
		for _, other := range charges {
			if slices.Contains(other.To, head) && !t.Belongs(other, c) {
				units[other.Unit] = true
			}
		}
		if delete(units, target); len(units) >= t.limit(head, target, len(units)) {
			return Standing{Held: true}
		}
	}
	c.Branch, _ = t.With(c)
	return Standing{Charge: c}
}

// Belongs says whether what nobody here has met was of the branch of what is removed by the same author, who is not in it. Whoever is
// removed with what it invented leaves nothing of that behind, and nobody takes a part of a group along as if it were invented.
func (t *Tree) Belongs(other, to *Charge) bool {
	return other.author() == to.author() && slices.Contains(other.Above, to.Unit) && !slices.Contains(t.Way(to.author()), to.Unit)
}

// With lists the branch of what is removed, if the author is not in it, and which of these go with it: nobody here has met them.
func (t *Tree) With(c *Charge) (branch []string, goes func(id string) bool) {
	goes = func(id string) bool { return !t.met(id) }
	if !t.Has(c.Unit) || slices.Contains(t.Way(c.author()), c.Unit) {
		return nil, goes
	}
	return slices.DeleteFunc(t.Branch(c.Unit), func(id string) bool { return id == c.Unit }), goes
}

// Refused says whether this cluster itself is removed by author: refuses says which members show that they took it for removed. That
// are most of those outside of each branch on the way to the author, so that neither it nor what it invented decides; most of all
// where nobody is outside.
func (t *Tree) Refused(author string, refuses func(id string) bool) bool {
	heads := append([]string{author}, t.Way(author)...)
	for _, head := range heads[:min(len(heads), maxHeads+1)] {
		in := map[string]bool{}
		for _, id := range t.Branch(head) {
			in[id] = true
		}
		of, by, all := 0, 0, 0
		for _, id := range t.ordered {
			refused := refuses(id)
			if refused {
				all++
			}
			if !in[id] {
				of++
				if refused {
					by++
				}
			}
		}
		if of == 0 {
			of, by = len(t.ordered), all
		}
		if 2*by <= of {
			return false
		}
	}
	return true
}
