// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"maps"
	"slices"

	"github.com/roster-mesh/roster/mesh/trust/branch"
)

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
		if part /= max(1, b.Below[at]); b.Size[next] >= max(part, free) {
			return false
		}
		at, part = next, part-1 // which is the cluster itself
	}
	return true
}

// above are those whom a cluster is below, or would be if they were members.
func (g *Graph) above(id string) (all []string) {
	if up, ok := g.arranged[id]; ok {
		return []string{up}
	}
	pin := g.pins[id]
	for _, w := range pin.Past {
		all = append(all, w.Author)
	}
	return append(all, pin.Introducer)
}

// branchesNow is who is below whom, as last arranged. Who came since is below the one on whose word it was pinned, see [branch.Tree.Add].
func (g *Graph) branchesNow() *branch.Tree {
	if g.branches == nil {
		all := slices.Collect(maps.Keys(g.pins))
		for id := range g.arranged {
			if g.member(id) == "" {
				all = append(all, id)
			}
		}
		g.branches = branch.New(g.self, all, g.parent, g.above, func(id string) bool { return g.member(id) != "" })
	}
	return g.branches
}

// ShareBy sets how Share shares, before anybody shares.
func (t *Table) ShareBy(share func(total int, wants map[string]int) map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.share = share
}

// Share returns what each cluster gets of total, if it wants as much as it can get, and the others what wants says. It takes the
// lock of the table. Without ShareBy all get the same.
func (t *Table) Share(total int, wants map[string]int) map[string]int {
	t.mu.RLock()
	share := t.share
	t.mu.RUnlock()
	if share != nil {
		return share(total, wants)
	}
	shares := make(map[string]int, len(wants))
	for id := range wants {
		shares[id] = total / len(wants)
	}
	return shares
}
