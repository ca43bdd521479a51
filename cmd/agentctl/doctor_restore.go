// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// checkRestore finds what waits for a person's word after an API server went back in time, or after sources
// went missing.
func checkRestore(_ context.Context, x *examination) []diagnosis {
	var out []diagnosis
	for _, p := range x.patients {
		if own := p.local(); own != nil && waitsForRestore(own) {
			out = append(out, diagnosis{
				Severity: isError, Cluster: p.name(),
				Message: "its API server went back in time, as after a restore, or its CRDs were deleted: nothing is published from here until you have brought back what is missing and confirm",
				Fix:     x.confirmRestore(own),
			})
		}
		for _, rule := range p.rules {
			if d := x.waitingRule(p, rule); d != nil {
				out = append(out, *d)
			}
		}
	}
	return out
}

// waitsForRestore tells it by the command that the agent's message holds.
func waitsForRestore(own *v1alpha1.Cluster) bool {
	cond := condition(own, v1alpha1.ConditionReady)
	return cond != nil && cond.Status != metav1.ConditionTrue && strings.Contains(cond.Message, v1alpha1.AnnotationConfirmRestore)
}

func (x *examination) confirmRestore(c *v1alpha1.Cluster) string {
	command := x.kubectlIn(c, "annotate", "--overwrite", "cluster", c.Name)
	value := v1alpha1.AnnotationConfirmRestore + `="$(date -u +%FT%TZ)"`
	if before, where, found := strings.Cut(command, "  # "); found {
		return before + " " + value + "  # " + where
	}
	return command + " " + value
}

func (x *examination) waitingRule(p *patient, rule *v1alpha1.ResourceSyncRule) *diagnosis {
	ready := readinessOf(rule)
	d := &diagnosis{Severity: isError, Cluster: p.name(), Message: "rule " + rule.Name + ": " + ready.Message}
	switch ready.Reason {
	case "SourceRestored":
		for _, c := range p.clusters {
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
		d.Fix = p.kubectl("annotate", "--overwrite", "resourcesyncrule", rule.Name, syncrules.AnnotationConfirmDeletions+"="+count)
	default:
		return nil
	}
	return d
}
