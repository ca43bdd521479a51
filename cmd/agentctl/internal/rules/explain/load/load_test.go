// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/fanout"
)

func spreading(t *testing.T) *syncrules.Rule {
	t.Helper()
	api := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	api.Spec.TargetNamespaces = &v1alpha1.NamespaceSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"in": "yes"}}}
	api.Spec.Rules = []v1alpha1.SyncRule{{}}
	rule, err := syncrules.Compile(api)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

func configMap(name string, bytes int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "shop"},
		"data": map[string]any{"v": strings.Repeat("v", bytes)},
	}}
}

// What is too much is so of one cluster's objects in another one's namespaces, by their size, too.
func TestExcess(t *testing.T) {
	t.Parallel()
	in := func(n int) func() (map[string]*fanout.Namespace, error) {
		return func() (map[string]*fanout.Namespace, error) {
			out := map[string]*fanout.Namespace{"other": {}, "ends": {Labels: map[string]string{"in": "yes"}, Ends: true}}
			for i := range n {
				out[strings.Repeat("n", i+1)] = &fanout.Namespace{Labels: map[string]string{"in": "yes"}}
			}
			return out, nil
		}
	}
	c := New(spreading(t))
	c.Add("large", configMap("x", fanout.MaxBytes/4))
	c.Add("small", configMap("x", 1))
	derived := configMap("derived", fanout.MaxBytes/4)
	derived.SetAnnotations(map[string]string{v1alpha1.AnnotationOwnerClusterID: "large"})
	c.Add("small", derived)
	if got := c.Excess("large", "two", in(2)); got != "" {
		t.Errorf("half of what may be: %s", got)
	}
	if got := c.Excess("large", "five", in(5)); !strings.HasPrefix(got, "rule r would make copies of 160 MiB, of 1 objects") {
		t.Errorf("too large ones: %q", got)
	}
	if got := c.Excess("small", "five", in(5)); got != "" {
		t.Errorf("a copy is no source: %s", got)
	}
	fails := func() (map[string]*fanout.Namespace, error) { return nil, errors.New("not now") }
	if got := c.Excess("large", "silent", fails); got != "" {
		t.Errorf("of namespaces that are not known: %s", got)
	}
	if got := c.Excess("large", "silent", in(5)); got == "" {
		t.Error("they are not asked for again")
	}
}

// A rule without targetNamespaces makes one copy of each object, however many there are.
func TestNoNamespaces(t *testing.T) {
	t.Parallel()
	if c := New(nil); c != nil || c.Excess("a", "b", nil) != "" {
		t.Errorf("%+v", c)
	}
	rule, err := syncrules.Compile(&v1alpha1.ResourceSyncRule{Spec: v1alpha1.ResourceSyncRuleSpec{GVK: v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}})
	if err != nil || New(rule) != nil {
		t.Errorf("%v", err)
	}
}
