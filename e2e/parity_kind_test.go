// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const toWidget = "mutations: {groupVersionKind: {group: parity.example.com, version: v1, kind: Widget}}"

// The copy of a built-in kind may be of another kind: that kind is written, and the original one is not.
func TestParityC05_BuiltInKindMutated(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+", "+toWidget+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "turned", "all", "one"))
	r.eventuallyCopied(t, widgets, "turned", "one", r.alpha, r.beta)
	u, err := get(t.Context(), r.beta, widgets, r.name, "turned")
	if err != nil {
		t.Fatal(err)
	}
	if got := u.GetAnnotations()[v1alpha1.AnnotationOriginalGVK]; got == "" {
		t.Errorf("the copy does not tell its original kind: %v", u.GetAnnotations())
	}
	put(t, r.gamma, configMaps, r.object(configMaps, "turned", "all", "two"))
	r.eventuallyCopied(t, widgets, "turned", "two", r.alpha, r.beta)
	r.drop(t, r.beta, widgets, "turned")
	r.eventuallyCopied(t, widgets, "turned", "two", r.beta)
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		if err := absent(c, configMaps, r.name, "turned")(t.Context()); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the rule is Ready", within, r.ruleSays(r.beta, "all", "True", "Synced"))
	without(t, r.beta, func() { put(t, r.gamma, configMaps, r.object(configMaps, "turned", "all", "three")) })
	r.eventuallyCopied(t, widgets, "turned", "three", r.alpha, r.beta)
	r.drop(t, r.gamma, configMaps, "turned")
	r.eventuallyGone(t, widgets, "turned", r.alpha, r.beta)
}

// A rule that changes the kind of a custom resource touches its own copies and no others, whatever becomes of
// the rule and its sources.
func TestParityC06_UnrelatedCopiesUntouched(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "widgets", ofWidgets+"rules: [{"+forLabel("widget")+"}]")
	r.rule(t, r.alpha, "gadgets", ofGadgets+"rules: [{"+forLabel("gadget")+"}]")
	for i := range 3 {
		put(t, r.gamma, widgets, r.object(widgets, fmt.Sprintf("widget-%d", i), "widget", "one"))
		put(t, r.gamma, gadgets, r.object(gadgets, fmt.Sprintf("gadget-%d", i), "gadget", "one"))
	}
	put(t, r.beta, widgets, r.object(widgets, "local", "turned", "local"))
	put(t, r.beta, gadgets, r.object(gadgets, "turned", "none", "local"))
	for i := range 3 {
		r.eventuallyCopied(t, widgets, fmt.Sprintf("widget-%d", i), "one", r.alpha, r.beta)
		r.eventuallyCopied(t, gadgets, fmt.Sprintf("gadget-%d", i), "one", r.alpha, r.beta)
	}
	unrelated := []func(*testing.T){r.asIs(t, widgets, "local", r.beta), r.asIs(t, gadgets, "turned", r.beta)}
	for i := range 3 {
		unrelated = append(unrelated, r.asIs(t, widgets, fmt.Sprintf("widget-%d", i), r.alpha, r.beta), r.asIs(t, gadgets, fmt.Sprintf("gadget-%d", i), r.alpha, r.beta))
	}
	untouched := func(when string) {
		t.Helper()
		put(t, r.gamma, widgets, r.object(widgets, "marker-w", "widget", when))
		put(t, r.gamma, gadgets, r.object(gadgets, "marker-g", "gadget", when))
		r.eventuallyCopied(t, widgets, "marker-w", when, r.alpha, r.beta)
		r.eventuallyCopied(t, gadgets, "marker-g", when, r.alpha, r.beta)
		for _, unchanged := range unrelated {
			unchanged(t)
		}
		if t.Failed() {
			t.Fatal(when)
		}
	}
	r.rule(t, r.alpha, "turn", ofGadgets+"ruleDeletionPolicy: Delete, rules: [{"+forLabel("turned")+", mutations: {groupVersionKind: {kind: Widget}}}]")
	put(t, r.gamma, gadgets, r.object(gadgets, "turned", "turned", "one"))
	put(t, r.gamma, gadgets, r.object(gadgets, "stays", "turned", "one"))
	r.eventuallyCopied(t, widgets, "turned", "one", r.alpha, r.beta)
	r.eventuallyCopied(t, widgets, "stays", "one", r.alpha, r.beta)
	untouched("made")
	r.drop(t, r.gamma, gadgets, "turned")
	r.eventuallyGone(t, widgets, "turned", r.alpha, r.beta)
	untouched("source deleted")
	without(t, r.beta, func() {})
	untouched("restarted")
	if err := remove(t.Context(), r.alpha, harness.Rules(), "", r.name+"-turn"); err != nil {
		t.Fatal(err)
	}
	r.eventuallyGone(t, widgets, "stays", r.alpha, r.beta)
	untouched("rule deleted")
}

// A change of kind leads round no consent.
func TestParityC17_MutatedKindNeedsConsent(t *testing.T) {
	r := newRoom(t)
	for _, c := range r.Clusters[:3] {
		grant(t, c, r.name, []string{roles.Group}, []string{roles.Resource})
	}
	r.rule(t, r.gamma, "roles", ofConfigMaps+"rules: [{"+forLabel("all")+", mutations: {groupVersionKind: {group: rbac.authorization.k8s.io, kind: Role}}}]")
	r.rule(t, r.gamma, "same", ofConfigMaps+"rules: [{"+forLabel("same")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "power", "all", "one"))
	put(t, r.gamma, configMaps, r.object(configMaps, "marker", "same", "one"))
	r.eventuallyCopied(t, configMaps, "marker", "one", r.alpha, r.beta)
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "the rule says in "+c.Name+" what it lacks", within, r.ruleSays(c, "roles", "False", "ConsentRequired"))
		for _, cond := range []func(context.Context) error{absent(c, roles, r.name, "power"), absent(c, configMaps, r.name, "power")} {
			if err := cond(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
