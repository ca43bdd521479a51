// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirmations"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// maxBad is how many lines about one cluster each a person sees without -o wide: what fits a screen. Of every rule the worst
// cluster stands in the table above them.
const maxBad = 20

// printBad prints a line for each cluster where a rule is not as it should be, the worst first, with what to do.
func (l *fleetList) printBad(out *cli.Output) error {
	var bad []ruleState
	for _, r := range l.Rules {
		for _, s := range r.Bad {
			if s.Health != clusters.Healthy || !s.observes || s.Drifted > 0 { // one that observes, and finds nothing, is healthy
				bad = append(bad, s)
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	slices.SortStableFunc(bad, func(a, b ruleState) int { return cmp.Compare(b.Health, a.Health) })
	shown := bad[:min(len(bad), maxBad)]
	rows := make([][]string, 0, len(shown))
	for _, s := range shown {
		text := s.text()
		if s.next != "" {
			text += "; next: " + s.next
		}
		rows = append(rows, []string{s.name, s.Cluster, text})
	}
	fmt.Fprintln(out.Stdout)
	if err := cli.PrintTable(out.Stdout, []string{"RULE", "CLUSTER", "PROBLEM"}, rows); err != nil {
		return err
	}
	if more := len(bad) - len(shown); more > 0 {
		fmt.Fprintf(out.Stdout, "and %d more: -o wide has all\n", more)
	}
	return nil
}

// nextStep is the command that helps a rule in a member, if that is known.
func nextStep(m *fleet.Member, rule *v1alpha1.ResourceSyncRule, health clusters.Health, ready clusters.Readiness) string {
	name, there := cli.ShellWord(clusters.Bound(rule.Name)), where(m)
	switch {
	case ready.Reason == "Orphaned":
		return "agentctl orphans list" + there
	case ready.Reason == confirmations.ReasonGuard:
		return "agentctl guard confirm " + name + there
	case ready.Reason == "SourceRestored":
		return v1alpha1.CommandConfirmRestore + " # in the cluster that was restored"
	case ready.Reason == "Paused":
		if owner := syncrules.Owner(rule); owner != "" && owner != m.ID {
			there = " # in the cluster that the rule is from"
		}
		return "agentctl rules resume " + name + there
	case ready.Reason == skew.Reason:
		return "upgrade the agent of cluster " + m.Name
	case ready.Reason == clusters.NotLookedAt:
		return "agentctl doctor" + there
	case health == clusters.Unknown:
		return "" // it settles by itself
	}
	return "agentctl rules explain " + name + there
}

// where ends a command for a member: with the context that leads there, if the caller has one.
func where(m *fleet.Member) string {
	switch {
	case !m.Own:
		return " # in cluster " + cli.ShellWord(m.Name)
	case m.Client.InCluster:
		return ""
	}
	return " --context " + cli.ShellWord(m.Client.Context)
}
