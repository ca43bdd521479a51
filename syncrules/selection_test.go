// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func compiled(t *testing.T, change func(*v1alpha1.ResourceSyncRule)) *Rule {
	t.Helper()
	api := &v1alpha1.ResourceSyncRule{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: v1alpha1.ResourceSyncRuleSpec{
			GVK:   v1alpha1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"},
			Rules: []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Namespaces: []string{"shop"}}}}},
		},
	}
	change(api)
	r, err := Compile(api)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSelection(t *testing.T) {
	first := compiled(t, func(*v1alpha1.ResourceSyncRule) {})
	for what, c := range map[string]struct {
		change func(*v1alpha1.ResourceSyncRule)
		same   bool
	}{
		"name":   {func(r *v1alpha1.ResourceSyncRule) { r.Name = "other" }, true},
		"paused": {func(r *v1alpha1.ResourceSyncRule) { r.Spec.Paused = true }, true},
		"policy": {func(r *v1alpha1.ResourceSyncRule) { r.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }, true},
		"mutation": {func(r *v1alpha1.ResourceSyncRule) {
			r.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Remove: []string{"l"}}
		}, true},
		"kind":  {func(r *v1alpha1.ResourceSyncRule) { r.Spec.GVK.Kind = "Other" }, false},
		"match": {func(r *v1alpha1.ResourceSyncRule) { r.Spec.Rules[0].Matches[0].Namespaces[0] = "other" }, false},
		"all":   {func(r *v1alpha1.ResourceSyncRule) { r.Spec.Rules[0].Matches = nil }, false},
		"namespaces": {func(r *v1alpha1.ResourceSyncRule) {
			r.Spec.TargetNamespaces = &v1alpha1.NamespaceSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"l": "v"}}}
		}, false},
		"none": {func(r *v1alpha1.ResourceSyncRule) { r.Spec.Rules = nil }, false},
	} {
		if same := compiled(t, c.change).Selection() == first.Selection(); same != c.same {
			t.Errorf("%s: the same selection: %t, want %t", what, same, c.same)
		}
	}
	none := compiled(t, func(r *v1alpha1.ResourceSyncRule) { r.Spec.Rules[0].Matches = nil })
	empty := compiled(t, func(r *v1alpha1.ResourceSyncRule) { r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{} })
	if none.Selection() != empty.Selection() {
		t.Errorf("no matches and an empty list of matches differ")
	}
	source := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "t", "namespace": "shop"},
	}}
	made, err := Render([]*Rule{first, none}, source, Input{Owner: origin})
	if err != nil || !slices.Equal(Selections(made), []string{first.Selection(), none.Selection()}) {
		t.Errorf("the copy carries %v, %v", Selections(made), err)
	}
}

func TestClusterScoped(t *testing.T) {
	r := compiled(t, func(r *v1alpha1.ResourceSyncRule) {
		r.Spec.Rules[0].Matches = append(r.Spec.Rules[0].Matches, v1alpha1.SyncRuleMatch{
			Namespaces: []string{"a", "b"}, Labels: []metav1.LabelSelector{{MatchLabels: map[string]string{"l": "v"}}},
		})
	})
	if err := r.CheckClusterScoped(); err == nil || !strings.Contains(err.Error(), "spec.rules[0].match[0]:") || strings.Contains(err.Error(), "match[1]") {
		t.Errorf("error %v, want one that names the first entry alone", err)
	}
	if got := r.ClusterScopes(); !slices.Equal(got, []Scope{{}}) {
		t.Errorf("scopes %v", got)
	}
	r = compiled(t, func(r *v1alpha1.ResourceSyncRule) {
		r.Spec.Rules[0].Matches[0].Labels = []metav1.LabelSelector{{MatchLabels: map[string]string{"l": "v"}}}
	})
	if got := r.ClusterScopes(); r.CheckClusterScoped() != nil || !slices.Equal(got, []Scope{{LabelSelector: "l=v"}}) {
		t.Errorf("scopes %v, %v", got, r.CheckClusterScoped())
	}
}
