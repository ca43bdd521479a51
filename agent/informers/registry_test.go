// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A Cluster without a clusterID is listed and nothing else, until it has one.
func TestClustersWithoutID(t *testing.T) {
	r := New(&kube.Client{}, "n", slog.New(slog.DiscardHandler))
	var told []string
	name := func(c *v1alpha1.Cluster) string {
		if c == nil {
			return "none"
		}
		return string(c.Spec.ClusterID)
	}
	r.handlers.Cluster = func(before, now *v1alpha1.Cluster) { told = append(told, name(before)+" to "+name(now)) }
	object := func(id, version string) *unstructured.Unstructured {
		spec := map[string]any{"authInfo": map[string]any{"secretRef": map[string]any{"name": "s", "namespace": "n"}}}
		if id != "" {
			spec["clusterID"] = id
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetName("c")
		u.SetResourceVersion(version)
		return u
	}
	clusters := r.informers[0]
	for _, step := range []struct {
		do   func()
		id   string
		told []string
	}{
		{func() { clusters.Replace([]*unstructured.Unstructured{object("", "1")}, "1") }, "", nil},
		{func() { clusters.Upsert(object("", "2")) }, "", nil},
		{func() { clusters.Upsert(object("a", "3")) }, "a", []string{"none to a"}},
		{func() { clusters.Upsert(object("a", "4")) }, "a", []string{"a to a"}},
		{func() { clusters.Upsert(object("", "5")) }, "", []string{"none to a"}}, // made anew: a is gone
		{func() { clusters.Upsert(object("b", "6")) }, "b", []string{"none to b"}},
		{func() { clusters.Upsert(object("a", "7")) }, "a", []string{"none to b", "none to a"}},
	} {
		told = nil
		step.do()
		if diff := cmp.Diff(step.told, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if all, err := r.Clusters.List(labels.Everything()); err != nil || len(all) != 1 {
			t.Errorf("listed %v, %v", all, err)
		}
		var want []string
		if step.id != "" {
			want = []string{step.id}
		}
		if got := r.ByCredentialSecret("n", "s"); !slices.Equal(got, want) {
			t.Errorf("by its Secret: %q, want %q", got, want)
		}
		for _, id := range []string{"", "a", "b"} {
			if got := len(r.ByID(id)); got > 0 != (id != "" && id == step.id) {
				t.Errorf("%d have the clusterID %q, and it is %q", got, id, step.id)
			}
		}
	}
}

// The CRD may be newer than the agent: a rule with a field that it does not know is marked in memory.
func TestRuleWithUnknownField(t *testing.T) {
	for field, mark := range map[string]string{"paused": "", "future": "spec.future"} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{field: true}, "status": map[string]any{"future": true},
		}}
		o, err := decodeRule(u)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.GetAnnotations()[v1alpha1.AnnotationNotUnderstood]; got != mark {
			t.Errorf("a rule with the field %s has the mark %q", field, got)
		}
		if u.GetAnnotations() != nil {
			t.Error("the object that was decoded is changed")
		}
	}
}
