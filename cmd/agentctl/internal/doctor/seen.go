// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Written is what agents have written in one cluster.
type Written struct {
	Client   *clusters.Client
	Clusters []*v1alpha1.Cluster
	Rules    []*v1alpha1.ResourceSyncRule
	Problem  string // why its API server is not reached now; "" while it is
}

// InWritten are the findings for which nobody is asked anything, the worst first.
func InWritten(ctx context.Context, namespace string, all []Written) []Finding {
	x, r := &inspection{namespace: namespace}, &Report{Checks: checkNames()}
	add := func(check string, found ...Finding) {
		for _, d := range found {
			d.Check = check
			r.Findings = append(r.Findings, d)
		}
	}
	for _, w := range all {
		x.targets = append(x.targets, targetOf(w))
	}
	add("members", x.written(x.targets)...)
	for _, t := range x.targets {
		for _, rule := range t.rules {
			add("rbac", x.ruleRights(t, rule)...)
			if health, ready, since := clusters.RuleHealth(rule); health == clusters.Unhealthy && !foundElsewhere(ready) {
				add("rules", x.ruleFinding(t, rule, ready, since))
			}
		}
	}
	add("orphans", checkOrphans(ctx, x)...)
	add("restore", checkRestore(ctx, x)...)
	r.complete(x)
	return r.Findings
}

// targetOf takes what stands for the cluster itself from what its agent has written.
func targetOf(w Written) *target {
	t := &target{client: w.Client, rules: w.Rules}
	if w.Problem != "" {
		t.apiErr = errors.New(w.Problem)
	}
	for _, c := range w.Clusters {
		if c.Spec.ClusterID != "" { // otherwise it is only listed
			t.clusters = append(t.clusters, c)
		}
		if c.Status.Type == v1alpha1.ClusterTypeLocal {
			t.id = string(c.Spec.ClusterID)
		}
	}
	return t
}
