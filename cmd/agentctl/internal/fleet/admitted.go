// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"

	"github.com/roster-mesh/roster/kube/api/admitted"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Admitted is who admitted whom, as the agent of one cluster sees it.
type Admitted struct {
	admitted.Tree
	Known bool // false where the agent is of a version that does not tell
	names map[string]string
}

// AdmittedIn reads that from the Cluster objects there; own is the clusterID of that cluster.
func AdmittedIn(all []*v1alpha1.Cluster, own string) Admitted {
	a := Admitted{names: map[string]string{}}
	by := map[string][]string{}
	for _, c := range all {
		id := string(c.Spec.ClusterID)
		if id == "" {
			continue
		}
		if a.names[id] = c.Name; id != own {
			by[id] = c.Status.AdmittedBy
			a.Known = a.Known || len(c.Status.AdmittedBy) > 0
		}
	}
	a.Tree = admitted.NewTree(own, by)
	return a
}

// Name is the name of a cluster, or its clusterID.
func (a Admitted) Name(id string) string { return cmp.Or(a.names[id], id) }

// Names are the names of the clusters that no path leads to without the head, ordered.
func (a Admitted) Names(head string) []string {
	names := []string{}
	for _, id := range a.Branch(head) {
		names = append(names, a.Name(id))
	}
	slices.Sort(names)
	return names
}
