// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirmations"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkRestore finds what waits for a person's word after an API server went back in time, or after sources
// went missing.
func checkRestore(_ context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		if own := t.local(); own != nil && confirmations.WaitsForRestore(own) {
			out = append(out, Finding{
				Severity: Error, Cluster: t.name(),
				Message: "its API server went back in time, as after a restore, or its CRDs were deleted: nothing is published from here until you have brought back what is missing and confirm",
				Fix:     v1alpha1.CommandConfirmRestore + t.flag(),
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

func (x *inspection) waitingRule(t *target, rule *v1alpha1.ResourceSyncRule) *Finding {
	ready := clusters.ReadinessOf(rule)
	d := &Finding{Severity: Error, Cluster: t.name(), Message: "rule " + rule.Name + ": " + ready.Message}
	switch ready.Reason {
	case "SourceRestored":
		for _, c := range t.clusters {
			if strings.HasPrefix(ready.Message, "cluster "+c.Name+" ") {
				d.Cluster, d.Fix = c.Name, v1alpha1.CommandConfirmRestore+x.flagOf(t, string(c.Spec.ClusterID))
			}
		}
	case confirmations.ReasonGuard:
		count := ""
		if n := confirmations.GuardedDeletions(ready); n > 0 {
			count = fmt.Sprintf(" --deletions=%d", n)
		}
		d.Fix = "agentctl guard confirm " + cli.ShellWord(rule.Name) + count + t.flag()
	default:
		return nil
	}
	return d
}
