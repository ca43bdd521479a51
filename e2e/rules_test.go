// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// upset plays an action that changes something, and what happens around it. The action reaches only the
// API servers that stay up; when upset returns everything runs again.
type upset func(t *testing.T, g *group, action func())

// calm lets the action happen.
func calm(_ *testing.T, _ *group, action func()) { action() }

// killed crashes one agent before the action and the others just after it, and starts them all again.
func killed(first func(*group) *harness.Cluster) upset {
	return func(t *testing.T, g *group, action func()) {
		t.Helper()
		victim := first(g)
		if err := victim.KillAgent(); err != nil {
			t.Fatal(err)
		}
		action()
		for _, c := range g.Clusters[:3] {
			if err := c.KillAgent(); err != nil {
				t.Fatal(err)
			}
		}
		g.startAgents(t)
	}
}

// outage stops the API server of beta, where the copies are, during the action and for a while after it.
func outage(t *testing.T, g *group, action func()) {
	t.Helper()
	if err := g.beta.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	action()
	stays(t, "the agent outlives its API server", 2*time.Second, g.beta.AgentAlive)
	if err := g.beta.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (g *group) startAgents(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range g.Clusters[:3] {
		all.Go(func() {
			if err := c.StartAgent(lasting(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// each runs a scenario calm and upset in the ways that make sense for it. The Secret's source is in gamma,
// the rule's origin is alpha, and the copy that is looked at most is in beta.
func each(t *testing.T, scenario func(t *testing.T, g *group, name string, disturb upset), outages bool) {
	upsets := map[string]upset{
		"calm":                  calm,
		"reader's agent killed": killed(func(g *group) *harness.Cluster { return g.beta }),
		"source's agent killed": killed(func(g *group) *harness.Cluster { return g.gamma }),
	}
	if outages {
		upsets["reader's API server down"] = outage
	}
	for name, disturb := range upsets {
		t.Run(name, func(t *testing.T) {
			g := joined(t)
			object := fmt.Sprintf("case-%d", time.Now().UnixNano())
			g.cleanUp(t, object)
			scenario(t, g, object, disturb)
		})
	}
}

func (g *group) eventuallyCopies(t *testing.T, name, value string) {
	t.Helper()
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, fmt.Sprintf("the copy in %s has %q", c.Name, value), afterFault, hasCopy(c, g.gamma, name, value))
	}
}

// share makes a source and a rule, and waits for the copies, and until the agents have recorded that they
// have seen all copies of the rule. One that crashes within the moments before that cannot tell afterwards
// whether a copy's source is gone or its rule was edited, and makes an orphan of it.
func (g *group) share(t *testing.T, name, value string) {
	t.Helper()
	putSecret(t, g.gamma, name, value)
	apply(t, g.alpha, rule(name, name))
	g.eventuallyCopies(t, name, value)
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "the rule's status in "+c.Name, afterFault, func(ctx context.Context) error {
			u, err := get(ctx, c, harness.Rules(), "", name)
			if err != nil {
				return err
			}
			if n, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); n != u.GetGeneration() {
				return fmt.Errorf("in %s: status.observedGeneration is %d", c.Name, n)
			}
			return nil
		})
	}
}

func TestSyncEverywhere(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		putSecret(t, g.gamma, name, "one")
		disturb(t, g, func() { apply(t, g.alpha, rule(name, name)) })
		g.eventuallyCopies(t, name, "one")
		for _, c := range []*harness.Cluster{g.beta, g.gamma} {
			eventually(t, "the rule is in "+c.Name, within, hasRule(c, name))
		}
		putSecret(t, g.gamma, name, "two")
		g.eventuallyCopies(t, name, "two")
	}, true)
}

func TestSourceChanged(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		g.share(t, name, "one")
		disturb(t, g, func() { putSecret(t, g.gamma, name, "two") })
		g.eventuallyCopies(t, name, "two")
	}, true)
}

func TestCopyIsRestored(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		g.share(t, name, "one")
		disturb(t, g, func() { deleteSecret(t, g.beta, name) })
		g.eventuallyCopies(t, name, "one")
		disturb(t, g, func() { putSecret(t, g.beta, name, "tampered") })
		g.eventuallyCopies(t, name, "one")
		kubectl(t, g.beta, "-n", harness.Namespace, "label", "secret", name, "added=here")
		eventually(t, "a label added to a copy is removed", within, func(ctx context.Context) error {
			u, err := get(ctx, g.beta, harness.Secrets(), harness.Namespace, name)
			if err == nil && u.GetLabels()["added"] != "" {
				err = fmt.Errorf("labels %v", u.GetLabels())
			}
			return err
		})
		if err := hasValueOf(g.gamma, name, "one")(t.Context()); err != nil {
			t.Errorf("what happened to a copy reached the source: %v", err)
		}
	}, false)
}

func TestSourceDeleted(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		g.share(t, name, "one")
		disturb(t, g, func() { deleteSecret(t, g.gamma, name) })
		for _, c := range []*harness.Cluster{g.alpha, g.beta} {
			eventually(t, "the copy in "+c.Name+" is gone", afterFault, noSecret(c, name))
		}
		stays(t, "and stays away", quiet, noSecret(g.beta, name))
	}, true)
}

// hears waits until a cluster has heard what another one says now, a rule, after what it said before.
func (g *group) hears(t *testing.T, c, from *harness.Cluster, name string) {
	t.Helper()
	marker := name + "-marker"
	g.cleanUp(t, marker)
	apply(t, from, rule(marker, marker))
	eventually(t, c.Name+" has heard "+from.Name, afterFault, hasRule(c, marker))
}

// Sync to a set of clusters: where the withdrawn rule is deleted, nothing is maintained any more.
func TestSyncToSet(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		g.share(t, name, "one")
		disturb(t, g, func() {
			kubectl(t, g.alpha, "annotate", "resourcesyncrule", name, v1alpha1.AnnotationSyncDisabled+"=true")
		})
		g.eventuallyWhole(t, afterFault)
		g.hears(t, g.beta, g.alpha, name)
		stays(t, "the rule's copy stays in beta", quiet, hasRule(g.beta, name))
		disturb(t, g, func() {
			if err := remove(t.Context(), g.beta, harness.Rules(), "", name); err != nil {
				t.Error(err)
			}
		})
		stays(t, "the rule is not recreated in beta", quiet, noRule(g.beta, name))
		deleteSecret(t, g.beta, name)
		stays(t, "the Secret is not recreated in beta", quiet, noSecret(g.beta, name))
		putSecret(t, g.gamma, name, "two")
		eventually(t, "alpha still has the rule", afterFault, hasCopy(g.alpha, g.gamma, name, "two"))
		if err := noSecret(g.beta, name)(t.Context()); err != nil {
			t.Error(err)
		}
	}, false)
}

// Sync from a set of clusters: only those with the feature are sources.
func TestSyncFromSet(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		putSecret(t, g.gamma, name, "one")
		apply(t, g.alpha, rule(name, name)+"  clusterFeatureMatch:\n  - featureName: "+name+"\n")
		eventually(t, "the rule is in beta", afterFault, hasRule(g.beta, name))
		stays(t, "no feature, no copy", quiet, noSecret(g.beta, name))
		feature := fmt.Sprintf("apiVersion: %s\nkind: ClusterFeature\nmetadata: {name: %s}\nspec: {featureName: %s}\n",
			v1alpha1.SchemeGroupVersion, name, name)
		disturb(t, g, func() { apply(t, g.gamma, feature) })
		g.eventuallyCopies(t, name, "one")
		if err := absent(g.alpha, harness.Features(), "", name)(t.Context()); err != nil {
			t.Errorf("a ClusterFeature left its own cluster: %v", err)
		}
		disturb(t, g, func() {
			if err := remove(t.Context(), g.gamma, harness.Features(), "", name); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "without the feature the copy is an orphan", afterFault, orphan(g.beta, name))
	}, true)
}

func orphan(c *harness.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Secrets(), harness.Namespace, name)
		if err != nil {
			return err
		}
		if _, found := u.GetAnnotations()[v1alpha1.AnnotationOrphaned]; !found {
			return fmt.Errorf("in %s: %s has annotations %v", c.Name, name, u.GetAnnotations())
		}
		return nil
	}
}

// An object without the owner's marks is nobody's copy, whatever rules say, and the rule says so.
func TestLocalObjectIsLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, g *group, name string, disturb upset) {
		putSecret(t, g.beta, name, "local")
		before, err := get(t.Context(), g.beta, harness.Secrets(), harness.Namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		putSecret(t, g.gamma, name, "one")
		disturb(t, g, func() { apply(t, g.alpha, rule(name, name)) })
		eventually(t, "the rule in beta reports the conflict", afterFault, func(ctx context.Context) error {
			u, err := get(ctx, g.beta, harness.Rules(), "", name)
			if err != nil {
				return err
			}
			if n, _, _ := unstructured.NestedInt64(u.Object, "status", "conflicts"); n < 1 {
				return fmt.Errorf("status %v", u.Object["status"])
			}
			return nil
		})
		putSecret(t, g.gamma, name, "two")
		untouched := func(ctx context.Context) error {
			u, err := get(ctx, g.beta, harness.Secrets(), harness.Namespace, name)
			if err == nil && u.GetResourceVersion() != before.GetResourceVersion() {
				err = fmt.Errorf("the local Secret was written: %v", u.GetAnnotations())
			}
			return err
		}
		stays(t, "the local Secret is not touched", quiet, untouched)
		deleteSecret(t, g.gamma, name)
		stays(t, "nor when the other one is deleted", quiet, untouched)
	}, true)
}

// hasValueOf looks at a Secret that is no copy.
func hasValueOf(c *harness.Cluster, name, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Secrets(), harness.Namespace, name)
		if err != nil {
			return err
		}
		return hasValue(c, u, value)
	}
}
