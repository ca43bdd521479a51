// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What is taken away at the source is taken away from the copy: labels, annotations and fields, also when the
// agent was not there to see it.
func TestParityC09_RemovalReachesTheCopy(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	full := r.object(configMaps, "full", "all", "one")
	full.SetLabels(map[string]string{"for": "all", "first": "x", "second": "x"})
	full.SetAnnotations(map[string]string{"example.com/first": "x", "example.com/second": "x"})
	full.Object["data"] = map[string]any{"v": "one", "first": "x", "second": "x"}
	put(t, r.gamma, configMaps, full)
	r.eventuallyCopied(t, configMaps, "full", "one", r.alpha, r.beta)
	take := func(name, value string) {
		r.patch(t, r.gamma, configMaps, "full", fmt.Sprintf(
			`{"metadata":{"labels":{%[1]q:null},"annotations":{"example.com/%[1]s":null}},"data":{%[1]q:null,"v":%[2]q}}`, name, value))
	}
	lacks := func(name string) {
		t.Helper()
		eventually(t, "the copy in beta has lost what was called "+name, afterFault, func(ctx context.Context) error {
			u, err := get(ctx, r.beta, configMaps, r.name, "full")
			if err != nil {
				return err
			}
			_, label := u.GetLabels()[name]
			_, annotation := u.GetAnnotations()["example.com/"+name]
			_, field := u.Object["data"].(map[string]any)[name]
			if label || annotation || field {
				return fmt.Errorf("it has labels %v, annotations %v, data %v", u.GetLabels(), u.GetAnnotations(), u.Object["data"])
			}
			return nil
		})
	}
	take("first", "two")
	lacks("first")
	r.eventuallyCopied(t, configMaps, "full", "two", r.alpha, r.beta)
	without(t, r.beta, func() { take("second", "two") })
	lacks("second")
	u, err := get(t.Context(), r.beta, configMaps, r.name, "full")
	if err != nil || u.GetLabels()["for"] != "all" || u.GetLabels()[v1alpha1.LabelOwnerClusterID] == "" {
		t.Errorf("what was not taken away is gone: %v %v", u, err)
	}
}

// An annotation's value may be anything, also in a selector.
func TestParityC10_AnnotationSelectorTakesAnyValue(t *testing.T) {
	r := newRoom(t)
	const url = "https://user@example.com:8443/a/b?c=d&e=%20#f, \"quoted\" and a very long text that no label could ever hold, as it is longer than 63 characters"
	r.rule(t, r.alpha, "url", ofConfigMaps+fmt.Sprintf("rules: [{match: [{namespaces: [NS], annotations: [{matchAnnotations: {example.com/url: %q}}]}]}]", url))
	r.rule(t, r.alpha, "in", ofConfigMaps+fmt.Sprintf("rules: [{match: [{namespaces: [NS], annotations: [{matchExpressions: [{key: example.com/in, operator: In, values: [%q, other]}]}]}]}]", url))
	for name, annotations := range map[string]map[string]string{
		"url": {"example.com/url": url}, "in": {"example.com/in": url},
		"not-url": {"example.com/url": strings.TrimSuffix(url, "s")}, "not-in": {"example.com/in": "https://example.com"},
	} {
		u := r.object(configMaps, name, "x", "one")
		u.SetAnnotations(annotations)
		put(t, r.gamma, configMaps, u)
	}
	marker := r.object(configMaps, "marker", "x", "one")
	marker.SetAnnotations(map[string]string{"example.com/url": url, "example.com/in": url})
	put(t, r.gamma, configMaps, marker)
	for _, name := range []string{"url", "in", "marker"} {
		r.eventuallyCopied(t, configMaps, name, "one", r.alpha, r.beta)
	}
	for _, name := range []string{"not-url", "not-in"} {
		if err := absent(r.beta, configMaps, r.name, name)(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, suffix := range []string{"url", "in"} {
		eventually(t, "rule "+suffix+" is Ready", within, r.ruleSays(r.beta, suffix, "True", ""))
	}
}

// Big objects arrive, as they were, and so do their updates.
func TestParityC19_BigObjectsArrive(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "maps", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	r.rule(t, r.alpha, "secrets", "groupVersionKind: {version: v1, kind: Secret}, rules: [{"+forLabel("all")+"}]")
	for _, kib := range []int{500, 1000} {
		for _, fill := range []string{"a", "b"} {
			value := string(bytes.Repeat([]byte(fill), kib<<10))
			name := fmt.Sprintf("big-%d", kib)
			for _, kind := range []schema.GroupVersionResource{configMaps, harness.Secrets()} {
				put(t, r.gamma, kind, r.object(kind, name, "all", value))
				r.eventuallyCopied(t, kind, name, value, r.alpha, r.beta)
			}
		}
	}
	for _, suffix := range []string{"maps", "secrets"} {
		eventually(t, "rule "+suffix+" is Ready", within, r.ruleSays(r.beta, suffix, "True", ""))
	}
}
