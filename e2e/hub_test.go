// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestHubOfAnOlderAgent: three clusters, all with an agent of a version that signs no admissions, have swapped with alpha alone. They are upgraded
// one by one, and then alpha ends. A newcomer that swaps with beta takes gamma too, for which nobody but alpha had vouched (docs/decisions/033).
func TestHubOfAnOlderAgent(t *testing.T) {
	older := earlier(t)
	for name, end := range map[string][]string{
		"leaves":     {"leave", "--context", "alpha"},
		"is removed": {"remove", "alpha", "--keep-admitted", "--context", "beta"},
	} {
		t.Run(name, func(t *testing.T) {
			bin, err := harness.FindBinaries()
			if err != nil {
				t.Fatal(err)
			}
			g := &group{Fleet: notStarted(t, bin, "alpha", "beta", "gamma", "delta")}
			g.alpha, g.beta, g.gamma = g.Clusters[0], g.Clusters[1], g.Clusters[2]
			delta := g.Clusters[3]
			members := []*harness.Cluster{g.beta, g.gamma, g.alpha}
			for _, c := range members {
				c.Runs(filepath.Join(older, "bin", "agent"), filepath.Join(older, "charts", "agent"))
			}
			start(t, g.Clusters...)
			for _, newcomer := range members[:2] {
				t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", newcomer.Name))
			}
			eventually(t, "each member lists the others", within, listEachOther(members...))
			for _, c := range members { // those agents record pins once a second; later ones before a copy is written
				eventually(t, c.Name+" has recorded the others", within, hasPins(c, len(members)-1))
			}
			for _, c := range members {
				upgradeToThis(t, bin, c)
				eventually(t, "the group is whole with "+c.Name+" upgraded", afterFault, listEachOther(members...))
			}
			for _, at := range members {
				eventually(t, at.Name+" has heard the new agent of alpha", afterFault, hasSchema(at, g.alpha))
			}
			t.Log(agentctl(t, g, end...))
			for _, c := range members[:2] {
				eventually(t, "alpha has ended in "+c.Name, afterFault, absent(c, harness.Clusters(), "", "alpha"))
			}
			t.Log(agentctl(t, g, "join", "--context", "beta", "--peer-context", "delta"))
			eventually(t, "the newcomer and both members list each other", afterFault, listEachOther(g.beta, g.gamma, delta))
			stays(t, "and nobody is lost", quiet, listEachOther(g.beta, g.gamma, delta))
		})
	}
}

// hasSchema: a cluster has heard an agent of this version in another one.
func hasSchema(at, of *harness.Cluster) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, at, harness.Clusters(), "", of.Name)
		if err != nil {
			return err
		}
		version, _, err := unstructured.NestedInt64(u.Object, "status", "schemaVersion")
		if err == nil && version != v1alpha1.SchemaVersion {
			err = fmt.Errorf("in %s: %s has the schema version %d", at.Name, of.Name, version)
		}
		return err
	}
}

// hasPins: so many clusters are pinned in the record of an agent.
func hasPins(c *harness.Cluster, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Secrets(), v1alpha1.PrivateNamespace(harness.Namespace), pinned.Secret)
		if err != nil {
			return err
		}
		if data, _, _ := unstructured.NestedMap(u.Object, "data"); len(data) != n {
			err = fmt.Errorf("in %s: %d clusters are recorded, not %d", c.Name, len(data), n)
		}
		return err
	}
}
