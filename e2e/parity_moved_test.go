// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A renamed copy is known for what it is also by an agent that starts anew: it is updated, restored and deleted
// with its source.
func TestParityC07_RenamedCopyFoundAfterRestart(t *testing.T) {
	r := newRoom(t)
	for _, name := range []string{"first", "second"} {
		r.rule(t, r.alpha, name, ofConfigMaps+"rules: [{"+forLabel(name)+", mutations: {overrides: [{type: replace, path: /metadata/name, value: copy-of-"+name+"}]}}]")
		put(t, r.gamma, configMaps, r.object(configMaps, name, name, "one"))
		r.eventuallyCopied(t, configMaps, "copy-of-"+name, "one", r.alpha, r.beta)
	}
	still := r.asIs(t, configMaps, "copy-of-second", r.beta)
	without(t, r.beta, func() { put(t, r.gamma, configMaps, r.object(configMaps, "first", "first", "two")) })
	r.eventuallyCopied(t, configMaps, "copy-of-first", "two", r.alpha, r.beta)
	still(t)
	without(t, r.beta, func() { r.drop(t, r.beta, configMaps, "copy-of-first") })
	r.eventuallyCopied(t, configMaps, "copy-of-first", "two", r.beta)
	without(t, r.beta, func() { r.drop(t, r.gamma, configMaps, "first") })
	r.eventuallyGone(t, configMaps, "copy-of-first", r.alpha, r.beta)
	still(t)
	r.drop(t, r.gamma, configMaps, "second") // and live, by an agent that did not make the copy
	r.eventuallyGone(t, configMaps, "copy-of-second", r.alpha, r.beta)
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		for _, name := range []string{"first", "second"} {
			if err := absent(c, configMaps, r.name, name)(t.Context()); err != nil {
				t.Errorf("under its own name: %v", err)
			}
		}
	}
}

// A copy in another namespace is found when its source is deleted, also with a name that fits into no label.
func TestParityC08_MovedCopyFoundOnDelete(t *testing.T) {
	r := newRoom(t)
	there := r.name + "-there"
	for _, c := range r.Clusters[:3] {
		furnish(t, c, there)
	}
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+", mutations: {overrides: [{type: replace, path: /metadata/namespace, value: "+there+
		`}, {type: replace, path: /metadata/name, value: "{{ .Object.metadata.name }}.moved"}]}}]`)
	long := strings.Repeat("long-", 30) + "name"
	for _, name := range []string{"short", long} {
		put(t, r.gamma, configMaps, r.object(configMaps, name, "all", "one"))
		for _, c := range []*harness.Cluster{r.alpha, r.beta} {
			eventually(t, "it is moved in "+c.Name, afterFault, copied(c, r.gamma, configMaps, there, name+".moved", "one"))
			u, err := get(t.Context(), c, configMaps, there, name+".moved")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := u.GetAnnotations()[v1alpha1.Prefix+"original-key"], r.name+"/"+name; got != want {
				t.Errorf("the original key is %q, not %q", got, want)
			}
			label := u.GetLabels()[v1alpha1.LabelOriginalName]
			if len(validation.IsValidLabelValue(label)) > 0 || label == "" || len(name) <= validation.LabelValueMaxLength && label != name {
				t.Errorf("the label of the original name is %q", label)
			}
			if label := u.GetLabels()[v1alpha1.LabelOriginalNamespace]; label != r.name {
				t.Errorf("the label of the original namespace is %q", label)
			}
		}
	}
	put(t, r.gamma, configMaps, r.object(configMaps, long, "all", "two"))
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "it is updated in "+c.Name, afterFault, copied(c, r.gamma, configMaps, there, long+".moved", "two"))
	}
	r.drop(t, r.gamma, configMaps, "short")
	without(t, r.beta, func() { r.drop(t, r.gamma, configMaps, long) })
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		for _, name := range []string{"short", long} {
			eventually(t, "it is gone from "+c.Name, afterFault, absent(c, configMaps, there, name+".moved"))
			if err := absent(c, configMaps, r.name, name)(t.Context()); err != nil {
				t.Errorf("in its own place: %v", err)
			}
		}
	}
}
