// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/admitted"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// branch is a line of members --tree. Its JSON is stable: fields are only ever added.
type branch struct {
	Name       string   `json:"name"`
	ClusterID  string   `json:"clusterID"`
	State      string   `json:"state"`
	AdmittedBy []string `json:"admittedBy"` // clusterIDs; behind a slash, on whose word
	Parent     string   `json:"parent"`     // the clusterID of the nearest that every path leads through; "" for none
	Depth      int      `json:"depth"`
	Branch     []string `json:"branch"` // names of those that would not be in the group without it
	Role       string   `json:"role,omitempty"`
}

// printTree prints who admitted whom, each below the nearest that every path to it leads through.
func printTree(all []*v1alpha1.Cluster, members []member, out *cli.Output) error {
	own := slices.IndexFunc(members, func(m member) bool { return m.Type == string(v1alpha1.ClusterTypeLocal) })
	if own < 0 {
		return cli.Usagef("the agent of this cluster has not started yet: there is no Cluster object of its own")
	}
	tree := fleet.AdmittedIn(all, members[own].ClusterID)
	lines, below := []branch{}, map[string][]admitted.Cluster{}
	for _, c := range tree.Clusters() {
		below[c.Parent] = append(below[c.Parent], c)
	}
	var add func(c admitted.Cluster)
	add = func(c admitted.Cluster) {
		at := slices.IndexFunc(all, func(o *v1alpha1.Cluster) bool { return string(o.Spec.ClusterID) == c.ClusterID })
		by := all[at].Status.AdmittedBy
		if by == nil {
			by = []string{}
		}
		lines = append(lines, branch{all[at].Name, c.ClusterID, asMember(all[at]).State, by, c.Parent, c.Depth, tree.Names(c.ClusterID), all[at].Status.Role})
		for _, child := range below[c.ClusterID] {
			add(child)
		}
	}
	add(admitted.Cluster{ClusterID: members[own].ClusterID})
	for _, orphan := range below[""] {
		add(orphan)
	}
	if !out.ForPeople() {
		return out.Document(lines)
	}
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		var by []string
		for _, text := range l.AdmittedBy {
			author, via, _ := strings.Cut(text, "/")
			by = append(by, v1alpha1.AdmittedBy(tree.Name(author), tree.Name(via)))
		}
		rows = append(rows, []string{indent(l.Depth) + l.Name, l.ClusterID, l.State, l.Role, strings.Join(by, ",")})
	}
	return cli.PrintTable(out.Stdout, []string{"NAME", "CLUSTER ID", "STATE", "ROLE", "ADMITTED BY"}, rows)
}

// indent shows how far a cluster is from the first.
func indent(depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.Repeat("| ", depth-1) + "|-"
}
