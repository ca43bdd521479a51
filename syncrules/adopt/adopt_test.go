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
	consents := map[string]string{v1alpha1.AnnotationAdopt: "other, r,s@origin"}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   string
	}{
		"with consent": {func(*unstructured.Unstructured) {}, ""},
		"without":      {func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }, "annotate it here with " + v1alpha1.AnnotationAdopt + "=r,s"},
		"to another rule": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "rr"})
		}, "annotate it here"},
		"to one of the rules": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r"})
		}, "annotate it here with " + v1alpha1.AnnotationAdopt + "=r,s"},
		"to copies of another cluster": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r,s@other"})
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
		"maybe of Argo CD": {func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/instance": "web"})
		}, "another tool keeps it as it is, as app.kubernetes.io/instance says"},
		"of cert-manager": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"cert-manager.io/certificate-name": "web"})
		}, "another tool keeps it as it is, as cert-manager.io/certificate-name says"},
		"applied by hand": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r,s", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
		}, ""},
		"left alone": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r,s", v1alpha1.AnnotationSyncDisabled: ""})
		}, "it has the annotation"},
		"being deleted": {func(o *unstructured.Unstructured) { now := metav1.Now(); o.SetDeletionTimestamp(&now) }, "it is being deleted"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetAnnotations(consents)
		c.change(obj)
		if got := Refuses(obj, []string{"r", "s"}, "origin", false); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An object that other clusters have copies of is adopted with the consent for one cluster alone.
func TestRefusesASource(t *testing.T) {
	t.Parallel()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	for value, want := range map[string]string{
		"r,s": v1alpha1.AnnotationAdopt + "=r@origin,s@origin", "r@origin,s": "=r@origin,s@origin", "r@other,s@other": "=r@origin,s@origin",
		"r@origin, s@origin": "",
	} {
		obj.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: value})
		if got := Refuses(obj, []string{"r", "s"}, "origin", true); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

func TestDesired(t *testing.T) {
	t.Parallel()
	desired := &unstructured.Unstructured{Object: map[string]any{}}
	if Desired(true, desired) != desired {
		t.Error("what says nothing of a policy is changed")
	}
	desired.SetAnnotations(map[string]string{v1alpha1.AnnotationRuleDeletionPolicy: "Delete", "x": "y"})
	out := Desired(true, desired)
	if Desired(false, desired) != desired || len(out.GetAnnotations()) != 1 || len(desired.GetAnnotations()) != 2 {
		t.Errorf("an adopted copy is to have %v, of %v", out.GetAnnotations(), desired.GetAnnotations())
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
