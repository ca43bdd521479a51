// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"slices"
	"strings"
)

// MaxAdmittedBy is how many status.admittedBy lists: a path to this cluster is left if one of them has it.
const MaxAdmittedBy = 64

// AdmittedBy is how status.admittedBy names who admitted a cluster: a clusterID, and behind a slash the member that brought it,
// where the first one answers for it on that one's word.
func AdmittedBy(author, via string) string {
	if via == "" {
		return author
	}
	return author + "/" + via
}

// AdmissionTree is who admitted whom, as one member sees it.
//
// +k8s:deepcopy-gen=false
type AdmissionTree struct {
	self string
	by   map[string][]string    // as AdmittedBy has it
	to   map[string][]admission // by each cluster that it takes
	of   map[string][]admission // by whom it admits
}

type admission struct{ cluster, author, via string }

// AdmittedCluster is a cluster in the tree.
//
// +k8s:deepcopy-gen=false
type AdmittedCluster struct {
	ClusterID string
	Parent    string // the nearest that every path from here leads through; "" where who admitted it is no member any more
	Depth     int
}

// NewAdmissionTree returns the tree of the member self; by has status.admittedBy of every other member.
func NewAdmissionTree(self string, by map[string][]string) AdmissionTree {
	t := AdmissionTree{self, by, map[string][]admission{}, map[string][]admission{}}
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
func (t AdmissionTree) reach(without string) (reached []AdmittedCluster) {
	seen := map[string]bool{t.self: true}
	there := func(id string) bool { return id == "" || seen[id] }
	for level := []AdmittedCluster{{ClusterID: t.self}}; len(level) > 0; {
		var next []AdmittedCluster
		for _, at := range level {
			for _, a := range t.to[at.ClusterID] {
				if !seen[a.cluster] && a.cluster != without && there(a.author) && there(a.via) {
					next = append(next, AdmittedCluster{a.cluster, at.ClusterID, at.Depth + 1})
				}
			}
		}
		slices.SortStableFunc(next, func(a, b AdmittedCluster) int { return strings.Compare(a.ClusterID, b.ClusterID) })
		level = slices.CompactFunc(next, func(a, b AdmittedCluster) bool { return a.ClusterID == b.ClusterID })
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
func (t AdmissionTree) Clusters() []AdmittedCluster {
	return append(t.dominated(t.reach("")), t.Orphans()...)
}

// Orphans lists the clusters that no path leads to: who admitted them is no member any more.
func (t AdmissionTree) Orphans() (all []AdmittedCluster) {
	reached := map[string]bool{}
	for _, c := range t.reach("") {
		reached[c.ClusterID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(t.by)) {
		if !reached[id] {
			all = append(all, AdmittedCluster{ClusterID: id, Depth: 1})
		}
	}
	return all
}

// Branch lists the clusters that no path leads to without the head: those that it admitted, and those that they did.
func (t AdmissionTree) Branch(head string) (ids []string) {
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
