// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"strconv"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// maxProblems is how many problems are kept of a member, the worst first.
const maxProblems = 50

// FleetOptions are which group is shown.
type FleetOptions struct{ *fleet.Group }

// Formats are what --output may be.
func (o *FleetOptions) Formats() []string { return cli.ListFormats() }

// Run shows what every member says of itself, and returns an AnswerError unless all were asked and are healthy.
func (o *FleetOptions) Run(ctx context.Context, out *cli.Output) error {
	answers, err := fleet.Ask(ctx, o.Group, askMember)
	if err != nil {
		return err
	}
	v := fleetView{Members: []ownView{}, Unknown: fleet.Unknowns(answers)}
	for i := range answers {
		if a := &answers[i]; a.Err == nil {
			v.Members, v.Health = append(v.Members, a.Value), max(v.Health, a.Value.Health)
		}
	}
	if len(v.Unknown) > 0 {
		v.Health = max(v.Health, clusters.Unknown)
	}
	if err := v.print(out); err != nil {
		return err
	}
	return v.answer()
}

// askMember reads what the agent of a member has written about the group there.
func askMember(ctx context.Context, m *fleet.Member) (ownView, error) {
	members, err := fleet.List[v1alpha1.Cluster](ctx, m, clusters.ClusterResource())
	if err != nil {
		return ownView{}, err
	}
	rules, err := fleet.List[v1alpha1.ResourceSyncRule](ctx, m, clusters.RuleResource())
	if err != nil {
		return ownView{}, err
	}
	v := viewOf(m.Name, members, rules)
	out := ownView{Name: m.Name, ClusterID: m.ID, Health: v.Health, Clusters: len(v.Members), Rules: v.Rules, Problems: []string{}}
	for _, text := range v.Problems[:min(len(v.Problems), maxProblems)] {
		out.Problems = append(out.Problems, clusters.Bound(text))
	}
	for _, c := range v.Members {
		if c.Health == clusters.Healthy {
			out.Healthy++
		}
	}
	return out, nil
}

// fleetView is the group as each of its members sees it. Its JSON is stable: fields are only ever added.
type fleetView struct {
	Health  clusters.Health `json:"health"`
	Members []ownView       `json:"members"`
	Unknown []fleet.Unknown `json:"unknown"` // members that could not be asked
}

// ownView is what one member says.
type ownView struct {
	Name      string          `json:"name"`
	ClusterID string          `json:"clusterID"`
	Health    clusters.Health `json:"health"`
	Clusters  int             `json:"clusters"` // that it has in its list, itself among them
	Healthy   int             `json:"healthyClusters"`
	Rules     ruleCounts      `json:"rules"`
	Problems  []string        `json:"problems"` // one line each, worst first
}

func (v fleetView) answer() error {
	if err := fleet.Incomplete(v.Unknown); err != nil {
		return err
	}
	for _, m := range v.Members {
		switch {
		case m.Health != v.Health:
		case v.Health == clusters.Unhealthy:
			return cli.Answerf(cli.ExitBlocked, "unhealthy: in cluster %s: %s", m.Name, cli.First(m.Problems))
		case v.Health == clusters.Unknown:
			return cli.Answerf(cli.ExitUnknown, "not known to be healthy: in cluster %s: %s", m.Name, cli.First(m.Problems))
		}
	}
	return nil
}

func (v fleetView) print(out *cli.Output) error {
	if out.Names(clusterName, namesOf(v.Members, func(m ownView) string { return m.Name })) {
		return nil
	}
	if !out.ForPeople() {
		return out.Document(v)
	}
	var rows, problems [][]string
	for _, m := range v.Members {
		worst := ""
		for i, text := range m.Problems {
			if i == 0 {
				worst = text
			}
			problems = append(problems, []string{m.Name, text})
		}
		n := m.Rules
		rows = append(rows, []string{
			m.Name, m.Health.String(), fmt.Sprintf("%d/%d", m.Healthy, m.Clusters), fmt.Sprintf("%d/%d", n.Ready, n.Total),
			fmt.Sprintf("%d/%d", n.Synced, n.Matched), strconv.Itoa(int(n.Failed)), strconv.Itoa(int(n.Conflicts)), worst,
		})
	}
	fmt.Fprintf(out.Stdout, "%s, %d of them unknown: %s\n\n", cli.Plural(len(v.Members)+len(v.Unknown), "cluster"), len(v.Unknown), v.Health)
	if err := cli.PrintTable(out.Stdout, []string{"CLUSTER", "HEALTH", "CLUSTERS", "RULES", "SYNCED", "FAILED", "CONFLICTS", "WORST"}, rows); err != nil {
		return err
	}
	if out.Wide() && len(problems) > 0 {
		fmt.Fprintln(out.Stdout)
		if err := cli.PrintTable(out.Stdout, []string{"CLUSTER", "PROBLEM"}, problems); err != nil {
			return err
		}
	}
	fleet.Print(out, v.Unknown)
	return nil
}
