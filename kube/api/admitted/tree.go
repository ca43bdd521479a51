// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admitted tells who admitted whom in a group, as status.admittedBy of Cluster objects has it. It is pure.
package admitted

import (
	"maps"
	"slices"
	"strings"
)

// Tree is who admitted whom, as one member sees it.
type Tree struct {
	self string
	by   map[string][]string    // as AdmittedBy has it
	to   map[string][]admission // by each cluster that it takes
	of   map[string][]admission // by whom it admits
}

type admission struct{ cluster, author, via string }

// Cluster is a cluster in the tree.
type Cluster struct {
	ClusterID string
	Parent    string // the nearest that every path from here leads through; "" where who admitted it is no member any more
	Depth     int
}

// NewTree returns the tree of the member self; by has status.admittedBy of every other member.
func NewTree(self string, by map[string][]string) Tree {
	t := Tree{self, by, map[string][]admission{}, map[string][]admission{}}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		for _, text := range by[id] {
			author, via, _ := strings.Cut(text, "/")
			a := admission{id, author, via}
			t.of[id] = append(t.of[id], a)
			if t.to[author] = append(t.to[author], a); via != "" {
				t.to[via] = append(t.to[via], a)
			}
		}
	}
	return t
}

// reach lists the clusters that a path leads to from self, as if without were not there: first the nearest, then by clusterID.
func (t Tree) reach(without string) (reached []Cluster) {
	seen := map[string]bool{t.self: true}
	there := func(id string) bool { return id == "" || seen[id] }
	for level := []Cluster{{ClusterID: t.self}}; len(level) > 0; {
		var next []Cluster
		for _, at := range level {
			for _, a := range t.to[at.ClusterID] {
				if !seen[a.cluster] && a.cluster != without && there(a.author) && there(a.via) {
					next = append(next, Cluster{a.cluster, at.ClusterID, at.Depth + 1})
				}
			}
		}
		slices.SortStableFunc(next, func(a, b Cluster) int { return strings.Compare(a.ClusterID, b.ClusterID) })
		level = slices.CompactFunc(next, func(a, b Cluster) bool { return a.ClusterID == b.ClusterID })
		for _, c := range level {
			seen[c.ClusterID] = true
		}
		reached = append(reached, level...)
	}
	return reached
}

// Clusters lists all but self, each after its parent; last those that no path leads to.
//
// A cluster is not below each that admitted it: then one that admits those of others would have them below itself, with what it
// invents. It is below who cannot be gone round.
func (t Tree) Clusters() []Cluster {
	return append(t.dominated(t.reach("")), t.Orphans()...)
}

// Orphans lists the clusters that no path leads to: who admitted them is no member any more.
func (t Tree) Orphans() (all []Cluster) {
	reached := map[string]bool{}
	for _, c := range t.reach("") {
		reached[c.ClusterID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(t.by)) {
		if !reached[id] {
			all = append(all, Cluster{ClusterID: id, Depth: 1})
		}
	}
	return all
}

// Branch lists the clusters that no path leads to without the head: those that it admitted, and those that they did.
func (t Tree) Branch(head string) (ids []string) {
	left := map[string]bool{head: true}
	for _, c := range t.reach(head) {
		left[c.ClusterID] = true
	}
	for _, c := range t.reach("") {
		if !left[c.ClusterID] {
			ids = append(ids, c.ClusterID)
		}
	}
	slices.Sort(ids)
	return ids
}
