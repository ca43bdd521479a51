// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
)

// TestEdge: gamma joins as an edge. The rules of others reach it; its own are in force nowhere else, and whom it admits nobody takes; also
// whoever has its key admits and removes nobody.
func TestEdge(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	g := &group{Fleet: ofTheirOwn(t, bin, "alpha", "beta", "gamma")}
	g.alpha, g.beta, g.gamma = g.Clusters[0], g.Clusters[1], g.Clusters[2]
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta"))
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "gamma", "--role", "edge"))
	g.eventuallyWhole(t, within)
	for _, c := range g.Clusters {
		eventually(t, "gamma is an edge in "+c.Name, within, hasRole(c, "gamma", v1alpha1.RoleEdge))
	}
	eventually(t, "and alpha is none in gamma", within, hasRole(g.gamma, "alpha", v1alpha1.RoleFull))

	putSecret(t, g.alpha, "edge-in", "one")
	putSecret(t, g.gamma, "edge-out", "one")
	apply(t, g.alpha, rule("edge-in", "edge-in"))
	apply(t, g.gamma, rule("edge-out", "edge-out"))
	eventually(t, "rules of others reach it", within, hasCopy(g.gamma, g.alpha, "edge-in", "one"))
	notInForce := func(ctx context.Context) (err error) {
		for _, c := range []*harness.Cluster{g.alpha, g.beta} {
			err = errors.Join(err, ruleIs(c, "edge-out", "False", "its role in the group is edge")(ctx), noSecret(c, "edge-out")(ctx))
		}
		return err
	}
	eventually(t, "its rule is not in force elsewhere", within, notInForce)
	eventually(t, "and says so in gamma, where it is", within, func(ctx context.Context) error {
		u, err := get(ctx, g.gamma, harness.Rules(), "", "edge-out")
		if err == nil && harness.Condition(u, "Shared")["status"] != "Unknown" {
			err = fmt.Errorf("its condition Shared is %v", harness.Condition(u, "Shared"))
		}
		return err
	})
	if out, err := g.Agentctl(t.Context(), "remove", "beta", "--context", "gamma", "--dry-run"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	key := privateKey(t, g.gamma)
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	ghost, ghostSays := invent(t, "ghost")
	say(t, g.alpha, key, append([][]byte{admits(t, clusterID(t, g.gamma), key, "ghost", ghost)}, ghostSays...)...)
	removal, err := signer(t, clusterID(t, g.gamma), key).SignRemoval(clusterID(t, g.beta), publicKey(t, g.alpha, "beta"), "beta", "gamma", 0)
	if err != nil {
		t.Fatal(err)
	}
	say(t, g.alpha, key, removal.Message())
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "the removal is held in "+c.Name, within, conditionSays(c, c.Name, v1alpha1.ConditionRemovalsInEffect, unconfirmed.ByEdge))
	}
	nothing := func(ctx context.Context) error {
		return errors.Join(absent(g.alpha, harness.Clusters(), "", "ghost")(ctx), absent(g.beta, harness.Clusters(), "", "ghost")(ctx),
			hasCluster(g.alpha, "beta")(ctx), hasRole(g.alpha, "gamma", v1alpha1.RoleEdge)(ctx), notInForce(ctx))
	}
	stays(t, "ghost is no member, and beta is one", quiet, nothing)
	if err := g.alpha.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "alpha is back", afterFault, func(ctx context.Context) error { return synced(ctx, g.alpha, g.beta) })
	stays(t, "also after a restart", quiet, nothing)
}

// TestEdgeBecomesAFullMember: a person in a full member says so, and the rule of the edge comes into force.
func TestEdgeBecomesAFullMember(t *testing.T) {
	g := strangers(t)
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta", "--role", "edge"))
	putSecret(t, g.beta, "edge-full", "one")
	apply(t, g.beta, rule("edge-full", "edge-full"))
	eventually(t, "the rule is not in force", within, ruleIs(g.alpha, "edge-full", "False", "its role in the group is edge"))
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta"))
	stays(t, "another swap makes no more of it", quiet, hasRole(g.alpha, "beta", v1alpha1.RoleEdge))
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta", "--role", "full"))
	for _, c := range g.Clusters {
		eventually(t, "beta is a full member in "+c.Name, within, hasRole(c, "beta", v1alpha1.RoleFull))
	}
	eventually(t, "its rule is in force", within, hasCopy(g.alpha, g.beta, "edge-full", "one"))
	if out, err := g.Agentctl(t.Context(), "join", "--context", "alpha", "--peer-context", "beta", "--role", "edge"); err == nil || !strings.Contains(err.Error(), "is a full member already, and stays it") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestEdgeBesideAnAgentWithoutRoles: gamma has an agent of a version that knows no roles. It does not take the edge, as it takes nobody whose
// admission it does not understand, and goes on in the group; once upgraded it takes it as an edge.
func TestEdgeBesideAnAgentWithoutRoles(t *testing.T) {
	older := earlier(t)
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	g := &group{Fleet: notStarted(t, bin, "alpha", "beta", "gamma")}
	g.alpha, g.beta, g.gamma = g.Clusters[0], g.Clusters[1], g.Clusters[2]
	g.gamma.Runs(filepath.Join(older, "bin", "agent"), filepath.Join(older, "charts", "agent"))
	start(t, g.Clusters...)
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "gamma"))
	if out, err := g.Agentctl(t.Context(), "join", "--context", "gamma", "--peer-context", "beta", "--role", "edge"); err == nil || !strings.Contains(err.Error(), "knows no roles") {
		t.Fatalf("an agent that knows no roles admits an edge: %v\n%s", err, out)
	}
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta", "--role", "edge"))
	putSecret(t, g.alpha, "edge-older", "one")
	apply(t, g.alpha, rule("edge-older", "edge-older"))
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		eventually(t, "rules reach "+c.Name, within, hasCopy(c, g.alpha, "edge-older", "one"))
	}
	stays(t, "the old agent does not take the edge", quiet, absent(g.gamma, harness.Clusters(), "", "beta"))
	upgradeToThis(t, bin, g.gamma)
	eventually(t, "the new one does", afterFault, hasRole(g.gamma, "beta", v1alpha1.RoleEdge))
	g.eventuallyWhole(t, afterFault)
}

// hasRole: a cluster has a role in the group, as the agent of another one, or its own, says.
func hasRole(c *harness.Cluster, name, role string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Clusters(), "", name)
		if err != nil {
			return err
		}
		if status, _ := u.Object["status"].(map[string]any); status["role"] != role {
			return fmt.Errorf("in %s: %s is %v", c.Name, name, status["role"])
		}
		return nil
	}
}

// conditionSays: a condition of a Cluster object has a text in its message.
func conditionSays(c *harness.Cluster, name, condition, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Clusters(), "", name)
		if err != nil {
			return err
		}
		if cond := harness.Condition(u, condition); !strings.Contains(fmt.Sprint(cond["message"]), text) {
			return fmt.Errorf("in %s: %s of %s is %v", c.Name, condition, name, cond)
		}
		return nil
	}
}
