// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestAwayLongerThanTombstones: gamma's agent is down while alpha deletes rules and a Secret, and then its tombstones, so
// that nobody can tell gamma of one. When it is back, with its disk, what is gone goes and what lives stays.
func TestAwayLongerThanTombstones(t *testing.T) {
	g := joined(t)
	const many = 12
	for _, name := range []string{"away-lives", "away-secret", "away-new"} {
		g.cleanUp(t, name)
	}
	manifests := []string{rule("away-lives", "away-lives"), rule("away-secret", "away-secret")}
	for i := range many {
		g.cleanUp(t, fmt.Sprint("away-goes-", i))
		manifests = append(manifests, rule(fmt.Sprint("away-goes-", i), "none"))
	}
	putSecret(t, g.alpha, "away-lives", "one")
	putSecret(t, g.alpha, "away-secret", "one")
	apply(t, g.alpha, strings.Join(manifests, "---\n"))
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		for i := range many {
			eventually(t, c.Name+" has every rule", within, hasRule(c, fmt.Sprint("away-goes-", i)))
		}
		eventually(t, c.Name+" has the Secrets", within, func(ctx context.Context) error {
			return errors.Join(hasCopy(c, g.alpha, "away-lives", "one")(ctx), hasCopy(c, g.alpha, "away-secret", "one")(ctx))
		})
	}

	if err := g.gamma.KillAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.alpha.RestartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(g.alpha.KillAgent(), g.alpha.StartAgent(t.Context(), "--tombstones", "0")); err != nil {
		t.Fatal(err)
	}
	before := epochOf(t, g.alpha)
	for i := range many {
		kubectl(t, g.alpha, "delete", "resourcesyncrule", fmt.Sprint("away-goes-", i))
	}
	deleteSecret(t, g.alpha, "away-secret")
	eventually(t, "alpha's tombstones are collected", within, func(context.Context) error {
		if epochOf(t, g.alpha) == before {
			return errors.New("it is in the same epoch")
		}
		return nil
	})
	putSecret(t, g.alpha, "away-lives", "two")
	apply(t, g.alpha, rule("away-new", "away-lives"))
	eventually(t, "beta has what is new", within, hasRule(g.beta, "away-new"))
	t.Logf("epoch %s of alpha became %s", before, epochOf(t, g.alpha))

	if err := g.gamma.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled := func(ctx context.Context) error {
		var errs []error
		for _, c := range g.Clusters[:3] {
			for i := range many {
				errs = append(errs, noRule(c, fmt.Sprint("away-goes-", i))(ctx))
			}
			errs = append(errs, noSecret(c, "away-secret")(ctx), hasRule(c, "away-lives")(ctx), hasRule(c, "away-new")(ctx))
		}
		return errors.Join(append(errs, hasCopy(g.gamma, g.alpha, "away-lives", "two")(ctx))...)
	}
	eventually(t, "gamma drops what is gone and keeps what lives", afterFault, settled)
	stays(t, "nothing is resurrected", quiet, settled)
	g.eventuallyWhole(t, afterFault)
}

// epochOf is the epoch that a cluster's agent has recorded.
func epochOf(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	secret, err := c.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Get(t.Context(), "roster-identity", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["epoch"])
}
