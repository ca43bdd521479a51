// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"container/heap"
	"slices"
)

// turns has rules come one after the other, each time one of the branch that would have least with it, and in there likewise: at each
// cluster that is one of its own or one of those that it admitted. So whatever there is, a branch has as much as its siblings
// when it is used up, to within one rule; and those that need as much as each other come by age.
type turns struct {
	parent   func(id string) string
	cost     func(rule int) int
	clusters map[string]*branch // "" stands for those that no path leads to
	root     *branch
	branches []*branch // each after the one above it
}

// branch is a cluster with all below it, or the rules of one author alone, which are below that cluster.
type branch struct {
	above   *branch
	own     *branch // the rules of the cluster itself; nil where it has none
	below   turn    // those that have a rule that waits
	waiting []int   // rules, the oldest first: of what has nothing below it
	charged int
	next    int // the rule whose turn it is,
	with    int // and what is charged with it
}

func newTurns(by Admissions, cost func(rule int) int) *turns {
	t := &turns{parent: by.Parent, cost: cost, clusters: map[string]*branch{}}
	if t.parent == nil {
		t.parent = func(string) string { return by.Root }
	}
	t.root = t.add(nil)
	t.clusters[by.Root] = t.root
	return t
}

// wait has a rule wait for its turn, after those of its author that wait.
func (t *turns) wait(author string, rule int) {
	own := t.author(author)
	own.waiting = append(own.waiting, rule)
}

// charge notes what an author has already.
func (t *turns) charge(author string, n int) {
	for b := t.author(author); b != nil; b = b.above {
		b.charged += n
	}
}

func (t *turns) author(id string) *branch {
	c := t.cluster(id)
	if c.own == nil {
		c.own = t.add(c)
	}
	return c.own
}

// cluster is the branch of a cluster, below those that lead to it.
func (t *turns) cluster(id string) *branch {
	var path []string
	up := id
	at, known := t.clusters[up]
	for ; !known && up != ""; at, known = t.clusters[up] {
		path, t.clusters[up] = append(path, up), nil // a circle ends there
		up = t.parent(up)
	}
	if at == nil {
		if at = t.clusters[""]; at == nil {
			at = t.add(t.root)
			t.clusters[""] = at
		}
	}
	for _, id := range slices.Backward(path) {
		at = t.add(at)
		t.clusters[id] = at
	}
	return at
}

func (t *turns) add(above *branch) *branch {
	b := &branch{above: above}
	t.branches = append(t.branches, b)
	return b
}

// run calls take with each rule that waits, when it is its turn, until it returns false; charged is what the rule takes.
func (t *turns) run(take func(rule int) (charged int, more bool)) {
	for i := len(t.branches) - 1; i > 0; i-- {
		b := t.branches[i]
		heap.Init(&b.below)
		if t.settle(b) {
			b.above.below = append(b.above.below, b)
		}
	}
	heap.Init(&t.root.below)
	for more := true; more && len(t.root.below) > 0; {
		b := t.root
		for len(b.below) > 0 {
			b = b.below[0]
		}
		var charged int
		charged, more = take(b.waiting[0])
		b.waiting = b.waiting[1:]
		for ; b != t.root; b = b.above { // it is the first of each
			b.charged += charged
			if t.settle(b) {
				heap.Fix(&b.above.below, 0)
			} else {
				heap.Pop(&b.above.below)
			}
		}
	}
}

// settle finds out which rule of the branch is next, and says whether one is.
func (t *turns) settle(b *branch) bool {
	switch {
	case len(b.below) > 0:
		b.next = b.below[0].next
	case len(b.waiting) > 0:
		b.next = b.waiting[0]
	default:
		return false
	}
	b.with = b.charged + t.cost(b.next)
	return true
}

// turn is a heap of siblings, of which the first is next.
type turn []*branch

func (h turn) Len() int { return len(h) }
func (h turn) Less(i, j int) bool {
	return h[i].with < h[j].with || h[i].with == h[j].with && h[i].next < h[j].next
}
func (h turn) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *turn) Push(x any)   { *h = append(*h, x.(*branch)) }

func (h *turn) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	*h = (*h)[:last]
	return b
}
