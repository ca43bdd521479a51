// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// MembersCommand describes the command members to the flag library.
func MembersCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "members",
		Usage: "list the group's clusters as the mesh of one of them sees them",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "tree", Usage: "show who admitted whom, beginning with the cluster of the context"},
		},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			return g.Run(c, &MembersOptions{clusters.AccessOf(g), c.Bool("tree")})
		},
	}
}

// ClustersCommand describes the command clusters to the flag library.
func ClustersCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "clusters",
		Usage: "list the group's clusters with their state and what they are",
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			return g.Run(c, &ClustersOptions{clusters.AccessOf(g)})
		},
	}
}

// MembersOptions are whose view members shows.
type MembersOptions struct {
	clusters.Access

	Tree bool // show who admitted whom
}

// Validate finds nothing to refuse.
func (o *MembersOptions) Validate() error { return nil }

// Formats are what --output may be.
func (o *MembersOptions) Formats() []string { return cli.ListFormats() }

// Run prints the members.
func (o *MembersOptions) Run(ctx context.Context, out *cli.Output) error {
	all, err := list(ctx, o.Access, out)
	if err != nil || all == nil {
		return err
	}
	members := make([]member, 0, len(all))
	for _, cluster := range all {
		if cluster.Spec.ClusterID != "" {
			members = append(members, asMember(cluster))
		}
	}
	if out.Names(clusterName, namesOf(members, func(m member) string { return m.Name })) {
		return nil
	}
	if o.Tree {
		return printTree(all, members, out)
	}
	if !out.ForPeople() {
		return out.Document(members)
	}
	header, rows := memberHeader(), memberRows(members, time.Now())
	if out.Wide() {
		header = append(header, "KEY", "ROLE")
		for i, m := range members {
			rows[i] = append(rows[i], m.Key, m.Role)
		}
	}
	return cli.PrintTable(out.Stdout, header, rows)
}

// ClustersOptions are whose view clusters shows.
type ClustersOptions struct{ clusters.Access }

// Validate finds nothing to refuse.
func (o *ClustersOptions) Validate() error { return nil }

// Formats are what --output may be.
func (o *ClustersOptions) Formats() []string { return cli.ListFormats() }

// Run prints the clusters.
func (o *ClustersOptions) Run(ctx context.Context, out *cli.Output) error {
	all, err := list(ctx, o.Access, out)
	if err != nil || all == nil {
		return err
	}
	lines := make([]clusterLine, 0, len(all))
	for _, cluster := range all {
		lines = append(lines, asClusterLine(cluster))
	}
	if out.Names(clusterName, namesOf(lines, func(l clusterLine) string { return l.Name })) {
		return nil
	}
	if !out.ForPeople() {
		return out.Document(lines)
	}
	header, rows := clusterHeader(), make([][]string, 0, len(lines))
	if out.Wide() {
		header = append(header, "CLUSTER ID")
	}
	for _, l := range lines {
		row := []string{l.Name, l.Status, l.Type, l.Synced, l.Version, l.Provider, l.Distribution, l.Region, l.Message}
		if out.Wide() {
			row = append(row, l.ClusterID)
		}
		rows = append(rows, row)
	}
	return cli.PrintTable(out.Stdout, header, rows)
}

// clusterName is what -o name puts before the name of a cluster.
const clusterName = "cluster." + v1alpha1.GroupName

func namesOf[T any](all []T, name func(T) string) []string {
	out := make([]string, 0, len(all))
	for _, one := range all {
		out = append(out, name(one))
	}
	return out
}

// list reads the Cluster objects; nil and a line on standard error when there are none and nothing
// else is printed.
func list(ctx context.Context, at clusters.Access, out *cli.Output) ([]*v1alpha1.Cluster, error) {
	c, err := at.Open()
	if err != nil {
		return nil, err
	}
	all, err := c.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && out.ForPeople() {
		fmt.Fprintf(out.Stderr, "no clusters in context %s: its agent has not started yet\n", c.Context)
		return nil, nil
	}
	return all, nil
}

// member is a line of members. Its JSON is stable: fields are only ever added.
type member struct {
	Name      string   `json:"name"`
	ClusterID string   `json:"clusterID"`
	Type      string   `json:"type"`
	State     string   `json:"state"`
	Since     string   `json:"since,omitempty"` // RFC 3339
	Endpoints []string `json:"endpoints"`
	Key       string   `json:"key,omitempty"`  // the fingerprint of its mesh key
	Role      string   `json:"role,omitempty"` // full or edge; "" where the agent here does not tell

	since time.Time
}

// asMember reads the mesh's view from the condition Member, whose reason is the state.
func asMember(cluster *v1alpha1.Cluster) member {
	m := member{
		Name: cluster.Name, ClusterID: string(cluster.Spec.ClusterID), Type: string(cluster.Status.Type),
		State: v1alpha1.MemberUnknown, Endpoints: []string{}, Role: cluster.Status.Role,
	}
	if cluster.Spec.Mesh != nil && cluster.Spec.Mesh.Endpoints != nil {
		m.Endpoints = cluster.Spec.Mesh.Endpoints
	}
	if cluster.Spec.Mesh != nil && len(cluster.Spec.Mesh.PublicKey) > 0 {
		m.Key = v1alpha1.KeyFingerprint(cluster.Spec.Mesh.PublicKey)
	}
	if cond := clusters.Condition(cluster, v1alpha1.ConditionMember); cond != nil {
		m.State = cond.Reason
		if !cond.LastTransitionTime.IsZero() {
			m.since = cond.LastTransitionTime.Time
			m.Since = m.since.UTC().Format(time.RFC3339)
		}
	}
	return m
}

func memberHeader() []string {
	return []string{"NAME", "CLUSTER ID", "TYPE", "STATE", "SINCE", "ENDPOINTS"}
}

func memberRows(members []member, now time.Time) [][]string {
	rows := make([][]string, 0, len(members))
	for _, m := range members {
		since := ""
		if !m.since.IsZero() {
			since = duration.HumanDuration(now.Sub(m.since))
		}
		rows = append(rows, []string{m.Name, m.ClusterID, m.Type, m.State, since, strings.Join(m.Endpoints, ",")})
	}
	return rows
}

// clusterLine is a line of clusters. Its JSON is stable: fields are only ever added.
type clusterLine struct {
	Name         string `json:"name"`
	ClusterID    string `json:"clusterID"`
	Status       string `json:"status"`
	Type         string `json:"type"`
	Synced       string `json:"synced"`
	Version      string `json:"version"`
	Provider     string `json:"provider"`
	Distribution string `json:"distribution"`
	Region       string `json:"region"`
	Message      string `json:"message"`
}

func clusterHeader() []string {
	return []string{"NAME", "STATUS", "TYPE", "SYNCED", "VERSION", "PROVIDER", "DISTRIBUTION", "REGION", "MESSAGE"}
}

func asClusterLine(cluster *v1alpha1.Cluster) clusterLine {
	st := cluster.Status
	l := clusterLine{
		Name: cluster.Name, ClusterID: string(cluster.Spec.ClusterID), Status: string(st.State), Type: string(st.Type), Version: st.Version,
		Provider: st.Provider, Distribution: st.Distribution, Message: clusters.Message(cluster),
	}
	if st.Locality != nil {
		l.Region = st.Locality.Region
	}
	if cond := clusters.Condition(cluster, v1alpha1.ConditionClustersSynced); cond != nil {
		l.Synced = string(cond.Status)
	}
	if cluster.Spec.ClusterID == "" {
		l.Message = cmp.Or(l.Message, "it has no clusterID: it is only listed, and joins nothing")
	}
	return l
}
