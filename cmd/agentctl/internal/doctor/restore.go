// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// checkRestore finds what waits for a person's word after an API server went back in time, or after sources
// went missing.
func checkRestore(_ context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		if own := t.local(); own != nil && waitsForRestore(own) {
			out = append(out, Finding{
				Severity: Error, Cluster: t.name(),
				Message: "its API server went back in time, as after a restore, or its CRDs were deleted: nothing is published from here until you have brought back what is missing and confirm",
				Fix:     x.confirmRestore(own),
			})
		}
		for _, rule := range t.rules {
			if d := x.waitingRule(t, rule); d != nil {
				out = append(out, *d)
			}
		}
	}
	return out
}

// waitsForRestore tells it by the command that the agent's message holds.
func waitsForRestore(own *v1alpha1.Cluster) bool {
	cond := clusters.Condition(own, v1alpha1.ConditionReady)
	return cond != nil && cond.Status != metav1.ConditionTrue && strings.Contains(cond.Message, v1alpha1.AnnotationConfirmRestore)
}

func (x *inspection) confirmRestore(c *v1alpha1.Cluster) string {
	command := x.kubectlIn(c, "annotate", "--overwrite", "cluster", c.Name)
	value := v1alpha1.AnnotationConfirmRestore + `="$(date -u +%FT%TZ)"`
	if before, where, found := strings.Cut(command, "  # "); found {
		return before + " " + value + "  # " + where
	}
	return command + " " + value
}

func (x *inspection) waitingRule(t *target, rule *v1alpha1.ResourceSyncRule) *Finding {
	ready := clusters.ReadinessOf(rule)
	d := &Finding{Severity: Error, Cluster: t.name(), Message: "rule " + rule.Name + ": " + ready.Message}
	switch ready.Reason {
	case "SourceRestored":
		for _, c := range t.clusters {
			if strings.HasPrefix(ready.Message, "cluster "+c.Name+" ") {
				d.Cluster, d.Fix = c.Name, x.confirmRestore(c)
			}
		}
	case "DeletionGuard":
		_, count, told := strings.Cut(ready.Message, syncrules.AnnotationConfirmDeletions+"=")
		if !told {
			count = ready.Message
		}
		count, _, _ = strings.Cut(count, " ")
		d.Fix = t.kubectl("annotate", "--overwrite", "resourcesyncrule", rule.Name, syncrules.AnnotationConfirmDeletions+"="+count)
	default:
		return nil
	}
	return d
}
