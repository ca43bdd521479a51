// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import "slices"

// branches is who is below whom. That is as it was last arranged; who came since is below the one on whose word it was pinned.
type branches struct {
	below map[string]int      // how many are right below a cluster
	size  map[string]int      // how many a cluster is with all below it
	order []string            // all, each after who is above it
	ways  map[string][]string // see waysNow
}

// maxWay bounds how many of those above a cluster are told: those nearest to this one.
const maxWay = 64

// parent is whom a cluster is below; "" for this cluster itself, and where nobody knows.
func (g *Graph) parent(id string) string {
	pin := g.pins[id]
	up, arranged := g.arranged[id]
	switch {
	case arranged && up == g.self, !arranged && (id == g.self || pin.Introducer == ""):
		return ""
	case arranged:
		return up
	case g.placed(pin.Introducer):
		return pin.Introducer
	}
	for _, w := range pin.Past {
		if g.member(w.Author) != "" {
			return w.Author
		}
	}
	return ""
}

// placed says whether a cluster is a member, or was one when it was arranged who is below whom, or has led to some of them.
func (g *Graph) placed(id string) bool {
	_, arranged := g.arranged[id]
	return arranged || g.member(id) != ""
}

// path lists who is above a member, itself first, and last who is right below this cluster. Circles, which there are where members end
// and come back, lead nowhere.
func (g *Graph) path(id string) (path []string) {
	for ; g.placed(id) && id != g.self && len(path) < len(g.pins)+len(g.arranged); id = g.parent(id) {
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
	place := func(id string) {
		if id != g.self {
			children[g.parent(id)] = append(children[g.parent(id)], id)
		}
	}
	for id := range g.pins {
		place(id)
	}
	for id := range g.arranged {
		if g.member(id) == "" {
			place(id)
		}
	}
	order := slices.Clone(children[""])
	for at := 0; at < len(order); at++ {
		order = append(order, children[order[at]]...)
	}
	for _, id := range slices.Backward(order) {
		if g.member(id) != "" {
			b.size[id]++
		}
		if b.size[id] > 0 {
			b.size[g.parent(id)] += b.size[id]
			b.below[g.parent(id)]++
		}
	}
	b.order = order
	g.branches = b
	return b
}

// waysNow are, for each cluster, those that it is below, first the one right below this cluster, and itself.
func (g *Graph) waysNow() map[string][]string {
	b := g.branchesNow()
	if b.ways != nil {
		return b.ways
	}
	b.ways = make(map[string][]string, len(b.order))
	for _, id := range b.order {
		if b.ways[id] = b.ways[g.parent(id)]; len(b.ways[id]) < maxWay {
			b.ways[id] = slices.Concat(b.ways[id], []string{id})
		}
	}
	return b.ways
}
