// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package branch counts the branches of a tree of clusters: how many are below each, and by way of whom.
package branch

import "slices"

// maxWay bounds how many of those above a cluster are told: those nearest to the root.
const maxWay = 64

// Tree is who is below whom. It is not safe for concurrent use.
type Tree struct {
	Below map[string]int // how many clusters with members are right below a cluster; "" is the root
	Size  map[string]int // how many members a cluster is with all below it

	order  []string            // all, each after who is above it
	known  map[string]struct{} // all, and those that one of them would be below if they came
	parent func(id string) string
	above  func(id string) []string
	ways   map[string][]string // see Ways
}

// New makes the tree of all clusters but self, which is the root. Parent says whom a cluster is right below, "" for the root, and above
// lists all that it could be right below if they were members. Clusters that are no members have a place, and count for nothing.
func New(self string, all []string, parent func(id string) string, above func(id string) []string, member func(id string) bool) *Tree {
	t, children := &Tree{Below: map[string]int{}, Size: map[string]int{}, known: map[string]struct{}{}, parent: parent, above: above}, map[string][]string{}
	for _, id := range all {
		t.know(id)
		if id != self {
			children[parent(id)] = append(children[parent(id)], id)
		}
	}
	t.order = slices.Clone(children[""])
	for at := 0; at < len(t.order); at++ {
		t.order = append(t.order, children[t.order[at]]...)
	}
	for _, id := range slices.Backward(t.order) {
		if member(id) {
			t.Size[id]++
		}
		if t.Size[id] > 0 {
			t.Size[parent(id)] += t.Size[id]
			t.Below[parent(id)]++
		}
	}
	return t
}

func (t *Tree) know(id string) {
	t.known[id] = struct{}{}
	for _, up := range t.above(id) {
		t.known[up] = struct{}{}
	}
}

// Add adds a new member, which parent and above know. It returns false, and the tree has to be made anew, where others may have another place
// because of it.
func (t *Tree) Add(id string) bool {
	up := t.parent(id)
	if _, known := t.known[id]; known || up != "" && t.Size[up] == 0 {
		return false
	}
	t.know(id)
	t.order = append(t.order, id)
	if t.ways != nil {
		t.ways[id] = t.way(id)
	}
	t.Below[up]++
	for t.Size[id]++; id != ""; t.Size[id]++ {
		id = t.parent(id)
	}
	return true
}

// Ways are, for each cluster, those that it is below, first the one right below the root, and itself.
func (t *Tree) Ways() map[string][]string {
	if t.ways != nil {
		return t.ways
	}
	t.ways = make(map[string][]string, len(t.order))
	for _, id := range t.order {
		t.ways[id] = t.way(id)
	}
	return t.ways
}

func (t *Tree) way(id string) []string {
	way := t.ways[t.parent(id)]
	if len(way) < maxWay {
		way = slices.Concat(way, []string{id})
	}
	return way
}
