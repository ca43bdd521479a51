// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import "slices"

// branches is who is pinned below whom: a cluster is below the one on whose word it was pinned, or that one's place was inherited of.
type branches struct {
	below map[string]int // how many are right below a cluster
	size  map[string]int // how many a cluster is with all below it
}

// parent is whom a cluster is below; "" for this cluster itself, and where nobody knows.
func (g *Graph) parent(id string) string {
	pin := g.pins[id]
	if id == g.self || pin.Introducer == "" {
		return ""
	}
	if g.member(pin.Introducer) != "" {
		return pin.Introducer
	}
	for _, w := range pin.Past {
		if g.member(w.Author) != "" {
			return w.Author
		}
	}
	return ""
}

// path lists who is above a member, itself first, and last who is right below this cluster. Circles, which there are where members end
// and come back, lead nowhere.
func (g *Graph) path(id string) (path []string) {
	for ; g.member(id) != "" && id != g.self && len(path) < len(g.pins); id = g.parent(id) {
		path = append(path, id)
	}
	return path
}

// room says whether another cluster may be pinned on the word of a member. At each level down to that one, a cluster with all below it
// may be as many as there is room left for, or as an equal part of what the level has, if that is more. So a member that
// invents clusters takes half of all at most, and leaves room for those that others admit. No pin is taken back for that.
func (g *Graph) room(introducer string) bool {
	free := MaxPins - len(g.pins)
	if free > MaxPins/2 || free <= 0 {
		return free > 0
	}
	b, part, at := g.branchesNow(), MaxPins-1, ""
	for _, next := range slices.Backward(g.path(introducer)) {
		if part /= max(1, b.below[at]); b.size[next] >= max(part, free) {
			return false
		}
		at, part = next, part-1 // which is the cluster itself
	}
	return true
}

// branchesNow counts them, once for each change of the pins.
func (g *Graph) branchesNow() *branches {
	if g.branches != nil {
		return g.branches
	}
	b, children := &branches{below: map[string]int{}, size: map[string]int{}}, map[string][]string{}
	for id := range g.pins {
		if id != g.self {
			children[g.parent(id)] = append(children[g.parent(id)], id)
		}
	}
	order := slices.Clone(children[""])
	for at := 0; at < len(order); at++ {
		order = append(order, children[order[at]]...)
	}
	for _, id := range slices.Backward(order) {
		b.size[id]++
		b.size[g.parent(id)] += b.size[id]
	}
	for id, right := range children {
		b.below[id] = len(right)
	}
	g.branches = b
	return b
}
