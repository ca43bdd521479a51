// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
)

// Copies are in the namespaces that have the label: in those that had it, in those that get it, in new ones, and not any more
// in one that loses it. explain says of a namespace why.
func TestTargetNamespaces(t *testing.T) {
	r := newRoom(t)
	namespace := func(suffix string, labels ...string) string {
		t.Helper()
		name := r.name + "-" + suffix
		apply(t, r.beta, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}\n", name, strings.Join(labels, ", ")))
		return name
	}
	yes := r.name + `: "yes"`
	in := func(name, value string) {
		t.Helper()
		eventually(t, "the copy of gamma is in "+name, afterFault, copied(r.beta, r.gamma, widgets, name, "one", value))
	}
	first, other := namespace("first", yes), namespace("other", r.name+`: "no"`)
	put(t, r.gamma, widgets, r.object(widgets, "one", "all", "1"))
	r.rule(t, r.alpha, "spread", ofWidgets+"targetNamespaces: {matchLabels: {"+yes+"}}, rules: [{"+forLabel("all")+"}]")
	in(first, "1")
	eventually(t, "beta counts its copies", within, r.ruleSays(r.beta, "spread", "True", "Synced"))
	eventually(t, "alpha has no such namespace", afterFault, r.ruleSays(r.alpha, "spread", "True", "Synced"))
	for where, c := range map[string]*harness.Cluster{other: r.beta, r.name: r.beta} {
		if err := absent(c, widgets, where, "one")(t.Context()); err != nil {
			t.Error(err)
		}
	}
	r.expect(t, 4, []string{"rules", "explain", "widgets", "one", "-n", other, "--context", "beta"}, "does not select namespace "+other+", which has "+r.name+"=no")
	r.expect(t, 0, []string{"rules", "explain", "widgets", "one", "-n", first, "--context", "beta"}, first+"/one in beta: in sync")

	fresh := namespace("fresh", yes)
	in(fresh, "1")
	kubectl(t, r.beta, "label", "--overwrite", "namespace", other, r.name+"=yes")
	in(other, "1")
	r.patch(t, r.gamma, widgets, "one", `{"data":{"v":"2"}}`)
	for _, name := range []string{first, fresh, other} {
		in(name, "2")
	}
	kubectl(t, r.beta, "label", "namespace", first, r.name+"-")
	eventually(t, "the copy is gone from "+first, afterFault, absent(r.beta, widgets, first, "one"))
	kubectl(t, r.beta, "delete", "namespace", fresh, "--wait=false")
	r.drop(t, r.gamma, widgets, "one")
	eventually(t, "the copy is gone from "+other, afterFault, absent(r.beta, widgets, other, "one"))
	eventually(t, "nothing is left to do", afterFault, func(ctx context.Context) error {
		return r.ruleSays(r.beta, "spread", "True", "Synced")(ctx)
	})
}

// Copies that would be too many are made in no namespace, and explain says so of the rule's file in the agent's own words.
func TestTargetNamespacesThatAreTooMany(t *testing.T) {
	r := newRoom(t)
	var manifest strings.Builder
	for i := range 130 { // for more than 128 MiB
		fmt.Fprintf(&manifest, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %[1]s-%[2]d, labels: {%[1]s: \"yes\"}}\n---\n", r.name, i)
	}
	apply(t, r.beta, manifest.String())
	put(t, r.gamma, widgets, r.object(widgets, "large", "all", strings.Repeat("v", 1<<20)))
	spec := ofWidgets + "targetNamespaces: {matchLabels: {" + r.name + `: "yes"}}, rules: [{` + strings.ReplaceAll(forLabel("all"), "NS", r.name) + "}]"
	file := write(t, "rule.yaml", "apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: "+r.name+"-many}\nspec: {"+spec+"}\n")
	text := "rule " + r.name + "-many would make copies of 130 MiB, of 1 objects with 1024 KiB in 130 namespaces each, and 128 MiB is most: " +
		"its copies stay as they are; narrow what it matches, or its targetNamespaces"
	r.expect(t, 5, []string{"rules", "explain", "-f", file, "--context", "beta"}, "from gamma: held, selects 1 object there: "+text)
	r.rule(t, r.alpha, "many", spec)
	eventually(t, "the agent says the same", afterFault, r.ruleSays(r.beta, "many", "False", "TooManyCopies: cluster gamma: "+text))
	if err := absent(r.beta, widgets, r.name+"-0", "large")(t.Context()); err != nil {
		t.Error(err)
	}
}

// What contradicts the selector is refused by the API server.
func TestTargetNamespacesThatContradict(t *testing.T) {
	r := newRoom(t)
	for spec, want := range map[string]string{
		"targetNamespaces: {}": "must select by matchLabels or matchExpressions",
		"targetNamespaces: {matchLabels: {a: b}}, createNamespace: true":                                                          "createNamespace",
		"targetNamespaces: {matchLabels: {a: b}}, rules: [{mutations: {overrides: [{path: /metadata/namespace, value: other}]}}]": "/metadata/namespace",
	} {
		file := write(t, "rule.yaml", "apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: "+r.name+"}\nspec: {"+ofWidgets+spec+"}\n")
		if out, err := r.alpha.Kubectl(t.Context(), "apply", "-f", file); err == nil || !strings.Contains(err.Error()+string(out), want) {
			t.Errorf("%s: %v, %s; want %q", spec, err, out, want)
		}
	}
}
