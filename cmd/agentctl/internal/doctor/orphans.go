// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkOrphans finds the copies that the agents say nobody maintains any more.
func checkOrphans(_ context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		for _, rule := range t.rules {
			if _, orphaned := rule.Annotations[v1alpha1.AnnotationOrphaned]; orphaned {
				out = append(out, Finding{
					Severity: Warning, Cluster: t.name(),
					Message: fmt.Sprintf("rule %s is an orphan: the cluster that it is from left the group or was removed, and the rule is paused; take it over, or delete it", rule.Name),
					Fix:     "agentctl orphans adopt rsr/" + cli.ShellWord(rule.Name) + t.flag(),
				})
			}
			cond := meta.FindStatusCondition(rule.Status.Conditions, clusters.RuleOrphans)
			if cond == nil || cond.Status != metav1.ConditionTrue {
				continue
			}
			out = append(out, Finding{
				Severity: Warning, Cluster: t.name(),
				Message: fmt.Sprintf("rule %s has copies that nobody maintains any more; keep them, or delete those that are not needed: %s", rule.Name, cli.OneLine(cond.Message)),
				Fix:     "agentctl orphans list" + t.flag(),
			})
		}
	}
	return out
}
