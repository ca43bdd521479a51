// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestRefuses(t *testing.T) {
	t.Parallel()
	yes := true
	consents := map[string]string{v1alpha1.AnnotationAdopt: "other, r"}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   string
	}{
		"with consent": {func(*unstructured.Unstructured) {}, ""},
		"without":      {func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }, "annotate it here with " + v1alpha1.AnnotationAdopt + "=r"},
		"to another rule": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "rr"})
		}, "annotate it here"},
		"of a controller": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Certificate", Name: "web", Controller: &yes}})
		}, "it belongs to Certificate web"},
		"owned, and not controlled": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Certificate", Name: "web"}})
		}, ""},
		"of Helm": {func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
		}, "another tool keeps it as it is, as app.kubernetes.io/managed-by says"},
		"applied by hand": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
		}, ""},
		"left alone": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r", v1alpha1.AnnotationSyncDisabled: ""})
		}, "it has the annotation"},
		"being deleted": {func(o *unstructured.Unstructured) { now := metav1.Now(); o.SetDeletionTimestamp(&now) }, "it is being deleted"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetAnnotations(consents)
		c.change(obj)
		if got := Refuses(obj, []string{"r", "s"}); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if Marked(obj) {
		t.Error("an object without annotations is marked")
	}
	Mark(obj)
	if !Marked(obj) {
		t.Error("a marked object is not")
	}
}
