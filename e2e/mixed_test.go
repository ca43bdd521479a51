// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// way is a Secret that a rule copies everywhere.
type way struct {
	name        string
	owner, rule *harness.Cluster   // who has the Secret, and who the rule
	to          []*harness.Cluster // who gets copies
}

func (w way) arrives(t *testing.T, value string, at ...*harness.Cluster) {
	t.Helper()
	for _, c := range at {
		eventually(t, fmt.Sprintf("%s is in %s with %q", w.name, c.Name, value), afterFault, hasCopy(c, w.owner, w.name, value))
	}
}

// TestMixedGroup: a standalone server and two Kubernetes control planes are one group like any other.
func TestMixedGroup(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	bin.Kubernetes = harness.Standalone + ",newest,newest"
	g := &group{Fleet: ofTheirOwn(t, bin, "alone", "alpha", "beta")}
	alone, alpha, beta := g.Clusters[0], g.Clusters[1], g.Clusters[2]

	paste(t, alone, alpha)
	paste(t, alpha, alone)
	t.Log(agentctl(t, g, "join", "--context", "beta", "--peer-context", "alone"))
	g.eventuallyWhole(t, afterFault)
	distributionIs(t, beta, map[string]bool{"alone": true, "alpha": false, "beta": false})

	into := way{"into-standalone", alpha, alone, []*harness.Cluster{alone, beta}}
	outOf := way{"out-of-standalone", alone, beta, []*harness.Cluster{alpha, beta}}
	for _, w := range []way{into, outOf} {
		apply(t, w.rule, rule(w.name, w.name))
		putSecret(t, w.owner, w.name, "one")
		w.arrives(t, "one", w.to...)
		putSecret(t, w.owner, w.name, "two")
		w.arrives(t, "two", w.to...)
		deleteSecret(t, w.owner, w.name)
		for _, c := range w.to {
			eventually(t, w.name+" is gone from "+c.Name, afterFault, noSecret(c, w.name))
		}
		putSecret(t, w.owner, w.name, "three")
		w.arrives(t, "three", w.to...)
	}

	// The server is killed under its agent, and misses a change.
	if err := alone.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	putSecret(t, alpha, into.name, "four")
	into.arrives(t, "four", beta)
	stays(t, "copies of a server that is away stay", quiet, hasCopy(alpha, alone, outOf.name, "three"))
	if err := alone.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	into.arrives(t, "four", alone)
	putSecret(t, alone, outOf.name, "four")
	outOf.arrives(t, "four", outOf.to...)
	g.eventuallyWhole(t, afterFault)

	t.Log(agentctl(t, g, "remove", "alone", "--keep-admitted", "--context", "alpha"))
	for _, c := range []*harness.Cluster{alpha, beta} {
		eventually(t, "alone is not listed in "+c.Name, afterFault, absent(c, harness.Clusters(), "", "alone"))
		eventually(t, "its copy is an orphan in "+c.Name, afterFault, isOrphan(c, outOf.name))
	}
	eventually(t, "its rule is an orphan", afterFault, ruleIsOrphan(beta, into.name))
	eventually(t, "alone says that it was removed", afterFault, saysRemoved(alone, "alpha"))
	putSecret(t, alpha, into.name, "five")
	stays(t, "alone reads no more", quiet, func(ctx context.Context) error {
		u, err := get(ctx, alone, harness.Secrets(), harness.Namespace, into.name)
		if err != nil {
			return err
		}
		return hasValue(alone, u, "four")
	})

	t.Log(agentctl(t, g, "join", "--replace-key", "--context", "alone", "--peer-context", "beta"))
	g.admit(t, "alone", alpha)
	g.eventuallyWhole(t, afterFault)
	into.arrives(t, "five", into.to...)
	outOf.arrives(t, "four", outOf.to...)
}

// distributionIs waits until a cluster lists others as standalone, or as something else.
func distributionIs(t *testing.T, at *harness.Cluster, standalone map[string]bool) {
	t.Helper()
	for name, want := range standalone {
		eventually(t, name+" has its distribution", afterFault, func(ctx context.Context) error {
			u, err := get(ctx, at, harness.Clusters(), "", name)
			if err != nil {
				return err
			}
			if is, _, _ := unstructured.NestedString(u.Object, "status", "distribution"); (is == "STANDALONE") != want {
				return fmt.Errorf("%s has the distribution %q", name, is)
			}
			return nil
		})
	}
}
