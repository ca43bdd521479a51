// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A member's rule does not write here what gives power, although every right for it was given to the agent.
func TestParityC17_PowerNeedsConsent(t *testing.T) {
	r := newRoom(t)
	for _, c := range r.Clusters[:3] {
		grant(t, c, r.name, []string{roles.Group}, []string{roles.Resource})
	}
	role := &unstructured.Unstructured{Object: map[string]any{"rules": []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}}}}}
	role.SetAPIVersion(roles.GroupVersion().String())
	role.SetKind("Role")
	role.SetNamespace(r.name)
	role.SetName("power")
	put(t, r.gamma, roles, role)
	for name, kind := range map[string]string{
		"token": "bootstrap.kubernetes.io/token", "release": "helm.sh/release.v1", "credential": v1alpha1.SecretType, "plain": "Opaque",
	} {
		secret := r.object(harness.Secrets(), name, "all", "one")
		secret.Object["type"] = kind
		put(t, r.gamma, harness.Secrets(), secret)
	}
	system := r.object(widgets, r.name, "all", "one")
	system.SetNamespace(metav1.NamespaceSystem)
	put(t, r.gamma, widgets, system)
	t.Cleanup(func() {
		if err := remove(lasting(t), r.gamma, widgets, metav1.NamespaceSystem, r.name); err != nil {
			t.Error(err)
		}
	})

	r.rule(t, r.gamma, "roles", "groupVersionKind: {group: rbac.authorization.k8s.io, version: v1, kind: Role}, rules: [{match: [{namespaces: [NS]}]}]")
	r.rule(t, r.gamma, "secrets", "groupVersionKind: {version: v1, kind: Secret}, rules: [{"+forLabel("all")+"}]")
	r.rule(t, r.gamma, "system", ofWidgets+"rules: [{match: [{namespaces: [kube-system]}]}]")
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "the plain Secret is in "+c.Name, within, copied(c, r.gamma, harness.Secrets(), r.name, "plain", "one"))
		for _, suffix := range []string{"roles", "secrets", "system"} {
			eventually(t, fmt.Sprintf("rule %s says in %s what it lacks", suffix, c.Name), within, r.ruleSays(c, suffix, "False", "ConsentRequired"))
		}
		for _, name := range []string{"token", "release", "credential"} {
			if err := absent(c, harness.Secrets(), r.name, name)(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := absent(c, roles, r.name, "power")(t.Context()); err != nil {
			t.Error(err)
		}
		if err := absent(c, widgets, metav1.NamespaceSystem, r.name)(t.Context()); err != nil {
			t.Error(err)
		}
		eventually(t, "three Secrets are refused in "+c.Name, within, func(ctx context.Context) error {
			u, err := get(ctx, c, harness.Rules(), "", r.name+"-secrets")
			if err != nil {
				return err
			}
			if n, _, _ := unstructured.NestedInt64(u.Object, "status", "failed"); n != 3 {
				return fmt.Errorf("%d are: %v", n, u.Object["status"])
			}
			return nil
		})
	}
}

// Whoever may write a rule does not get the credentials of clusters by it, in whatever disguise.
func TestRuleCarriesNoSwapSecrets(t *testing.T) {
	r := newRoom(t)
	secret := r.object(harness.Secrets(), "swap", "all", "one")
	secret.Object["type"] = v1alpha1.SecretType
	put(t, r.gamma, harness.Secrets(), secret)
	put(t, r.gamma, harness.Secrets(), r.object(harness.Secrets(), "plain", "all", "one"))
	const of = "groupVersionKind: {version: v1, kind: Secret}, rules: [{"
	r.rule(t, r.gamma, "opaque", of+forLabel("all")+", mutations: {overrides: [{path: /type, value: Opaque}]}}]")
	r.rule(t, r.gamma, "maps", of+forLabel("all")+", mutations: {groupVersionKind: {kind: ConfigMap}}}]")
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "the plain Secret is in "+c.Name, within, copied(c, r.gamma, harness.Secrets(), r.name, "plain", "one"))
		for _, suffix := range []string{"opaque", "maps"} {
			eventually(t, fmt.Sprintf("rule %s says in %s what it lacks", suffix, c.Name), within, r.ruleSays(c, suffix, "False", "ConsentRequired"))
		}
		for _, cond := range []func(context.Context) error{
			absent(c, harness.Secrets(), r.name, "swap"), absent(c, configMaps, r.name, "swap"), absent(c, configMaps, r.name, "plain"),
		} {
			if err := cond(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a cluster accepts of another one takes effect there at once, and only there. What it does not accept any more stays as
// it is: neither the other cluster's objects nor its rules have it deleted.
func TestSyncAccepted(t *testing.T) {
	r := newRoom(t)
	accept := func(value string) {
		t.Helper()
		if out, err := r.Agentctl(lasting(t), "accept", r.gamma.Name, value, "--context", r.alpha.Name); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		accept("default")
		for _, suffix := range []string{"theirs", "deleted"} {
			if err := remove(lasting(t), r.alpha, harness.Rules(), "", r.name+"-"+suffix); err != nil { // an orphan
				t.Error(err)
			}
		}
	})
	const ofMaps = "groupVersionKind: {version: v1, kind: ConfigMap}, ruleDeletionPolicy: Delete, rules: [{"
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	put(t, r.gamma, configMaps, r.object(configMaps, "last", "last", "1"))

	accept("objects")
	r.rule(t, r.gamma, "theirs", ofMaps+forLabel("all")+"}]")
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	eventually(t, "alpha says how to accept the rule", within, r.ruleSays(r.alpha, "theirs", "False", "agentctl accept "+r.gamma.Name+" all"))
	if err := absent(r.alpha, configMaps, r.name, "one")(t.Context()); err != nil {
		t.Error(err)
	}
	accept("all")
	r.eventuallyCopied(t, configMaps, "one", "1", r.alpha)
	r.rule(t, r.gamma, "deleted", ofMaps+forLabel("last")+"}]")
	r.eventuallyCopied(t, configMaps, "last", "1", r.alpha, r.beta)

	accept("none")
	for _, suffix := range []string{"theirs", "deleted"} {
		eventually(t, "alpha refuses the rule "+suffix, within, r.ruleSays(r.alpha, suffix, "False", "ConsentRequired"))
	}
	same := r.asIs(t, configMaps, "one", r.alpha)
	last := r.asIs(t, configMaps, "last", r.alpha)
	r.drop(t, r.gamma, configMaps, "one")
	if err := remove(t.Context(), r.gamma, harness.Rules(), "", r.name+"-deleted"); err != nil {
		t.Fatal(err)
	}
	r.eventuallyGone(t, configMaps, "one", r.beta)
	r.eventuallyGone(t, configMaps, "last", r.beta)
	eventually(t, "alpha keeps the rule", within, r.ruleSays(r.alpha, "deleted", "False", "Orphaned"))
	same(t)
	last(t)
	if err := hasCluster(r.alpha, r.gamma.Name)(t.Context()); err != nil {
		t.Errorf("it is still listed: %v", err)
	}

	accept("default")
	r.eventuallyGone(t, configMaps, "one", r.alpha)
	last(t)
}
