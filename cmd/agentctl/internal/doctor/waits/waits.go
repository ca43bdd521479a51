// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package waits finds what an agent asks a person to decide, in the own Cluster object of its cluster.
package waits

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
)

// Decision is one thing to decide, with the command for it.
type Decision struct{ Message, Fix string }

// In lists what the agent of a cluster asks for; own is its own Cluster object, and flag names its context.
func In(own *v1alpha1.Cluster, flag string) (all []Decision) {
	if cond := clusters.Condition(own, v1alpha1.ConditionClustersAdmitted); cond != nil && cond.Status != metav1.ConditionTrue {
		for _, n := range v1alpha1.ParseNewcomers(cond.Message) {
			all = append(all, Decision{
				"a cluster that was removed waits to be admitted: " + v1alpha1.NewcomerLine(n),
				fmt.Sprintf("agentctl approve %s%s --key %s", cli.ShellWord(n.Name), flag, n.Fingerprint),
			})
		}
		switch cond.Reason {
		case v1alpha1.AdmittedUnknownAuthority:
			all = append(all, Decision{cond.Message, "agentctl members" + flag + ", and name members in the chart value trust.authorities"})
		case v1alpha1.AdmittedOtherKey:
			all = append(all, Decision{cond.Message, "agentctl members --tree" + flag})
		}
	}
	if cond := clusters.Condition(own, v1alpha1.ConditionRemovalsInEffect); cond != nil && cond.Status != metav1.ConditionTrue {
		held := map[string]int{}
		var authors []string
		for _, r := range unconfirmed.Parse(cond.Message) {
			if r.State == unconfirmed.Held {
				if held[r.By]++; held[r.By] == 1 {
					authors = append(authors, r.By)
				}
			}
		}
		for _, by := range authors {
			all = append(all, Decision{
				fmt.Sprintf("cluster %s ordered more removals than it may unseen, and %d of them wait for a decision", by, held[by]),
				fmt.Sprintf("agentctl removals list%s, and if they are meant: agentctl removals confirm --by %s%s; else agentctl remove %s%s", flag, cli.ShellWord(by), flag, cli.ShellWord(by), flag),
			})
		}
	}
	if cond := clusters.Condition(own, v1alpha1.ConditionChangesApplied); cond != nil && cond.Status != metav1.ConditionTrue {
		all = append(all, Decision{cond.Message, "agentctl members --tree" + flag})
	}
	return all
}
