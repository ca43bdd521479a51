// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"maps"
	"slices"
	"sort"
)

// node is a cluster, or what stands for those that no path leads to.
type node struct {
	above   int   // who admitted it
	below   []int // whom it admitted: those come after it
	own     int   // what it wants for itself,
	wants   int   // and with all below it
	share   int   // what it gets at most with all below it,
	ownPart int   // and for itself
}

// Of returns what each cluster gets at most of total, if it wants as much as it can get while each other one wants what wants says. So
// one whose share is more than it wants may have more, and if all want more than there is, those whose share is less than they want
// must give way. parent names who admitted a cluster; it is not asked for the root's.
func Of(total int, root string, parent func(id string) string, wants map[string]int) map[string]int {
	t := newTree(root, parent, wants)
	for at := len(t.nodes) - 1; at >= 0; at-- {
		n := &t.nodes[at]
		if n.wants += n.own; at > 0 {
			t.nodes[n.above].wants += n.wants
		}
	}
	t.nodes[0].share = total
	for at := range t.nodes {
		t.divide(&t.nodes[at])
	}
	shares := make(map[string]int, len(wants))
	for id := range wants {
		shares[id] = t.nodes[t.at[id]].ownPart
	}
	return shares
}

// tree has its root first.
type tree struct {
	at    map[string]int
	nodes []node
	lost  int // what stands for those that no path leads to; 0 for none
}

// newTree is the tree of all that want something, and of who leads to them.
func newTree(root string, parent func(string) string, wants map[string]int) *tree {
	t := &tree{at: make(map[string]int, len(wants)+2), nodes: make([]node, 1, len(wants)+2)}
	t.at[root] = 0
	for _, id := range slices.Sorted(maps.Keys(wants)) {
		t.nodes[t.put(id, parent)].own = wants[id]
	}
	return t
}

// onPath stands for where a cluster is while those that lead to it are looked for.
const onPath = -1

// put returns where a cluster is, with all that lead to it.
func (t *tree) put(id string, parent func(string) string) int {
	var path []string
	up := id
	for ; up != ""; up = parent(up) {
		if _, known := t.at[up]; known {
			break
		}
		path = append(path, up)
		t.at[up] = onPath
	}
	at, known := t.at[up]
	if !known || at == onPath { // the path ends, or is a circle
		if t.lost == 0 {
			t.lost = t.add(0)
		}
		at = t.lost
	}
	for _, next := range slices.Backward(path) {
		at = t.add(at)
		t.at[next] = at
	}
	return at
}

func (t *tree) add(above int) int {
	at := len(t.nodes)
	t.nodes = append(t.nodes, node{above: above})
	t.nodes[above].below = append(t.nodes[above].below, at)
	return at
}

// divide divides what a node gets among itself and those right below it.
func (t *tree) divide(n *node) {
	wants := make([]int, 0, len(n.below)+1)
	for _, b := range n.below {
		if w := t.nodes[b].wants; w > 0 {
			wants = append(wants, w)
		}
	}
	if n.own > 0 {
		wants = append(wants, n.own)
	}
	l := newLevel(n.share, wants)
	for _, b := range n.below {
		t.nodes[b].share = l.most(t.nodes[b].wants)
	}
	n.ownPart = l.most(n.own)
}

// level are those that share something as equals.
type level struct {
	total int
	wants []int // ascending; who wants nothing is not in it
	sums  []int // sums[i] is that of the first i
}

func newLevel(total int, wants []int) level {
	slices.Sort(wants)
	sums := make([]int, len(wants)+1)
	for i, w := range wants {
		sums[i+1] = sums[i] + w
	}
	return level{total, wants, sums}
}

// most is what one of them, which wants so much, would get if it wanted everything: the height to which all that is there is filled,
// when each other one has what it wants up to that height.
func (l level) most(wants int) int {
	others, self := len(l.wants), len(l.wants)
	if wants > 0 {
		self = sort.SearchInts(l.wants, wants)
		others--
	}
	at := func(i int) int { // the i-th of the others
		if i >= self {
			i++
		}
		return l.wants[i]
	}
	sum := func(i int) int { // of the first i of the others
		if i > self {
			return l.sums[i+1] - wants
		}
		return l.sums[i]
	}
	satisfied := sort.Search(others, func(i int) bool { return at(i)*(others+1-i)+sum(i) > l.total })
	return max(0, (l.total-sum(satisfied))/(others+1-satisfied))
}
