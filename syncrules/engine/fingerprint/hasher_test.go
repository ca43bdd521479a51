// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func object(value, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": value},
		"metadata": map[string]any{"name": "x", "resourceVersion": version},
	}}
}

// What no copy takes over makes no difference, and the object is not changed.
func TestOf(t *testing.T) {
	t.Parallel()
	h, first := New(), object("1", "7")
	sum := h.Of(first)
	if sum != h.Of(object("1", "8")) || sum == h.Of(object("2", "7")) || sum == New().Of(first) {
		t.Error("the hash is not of what a copy takes over, or not of this Hasher alone")
	}
	if first.GetResourceVersion() != "7" {
		t.Error("the object was changed")
	}
	if h.Of(&unstructured.Unstructured{Object: map[string]any{"spec": func() {}}}) != 0 {
		t.Error("what is no JSON has a hash")
	}
}

// That somebody consents to an adoption is seen, and that somebody else keeps the object.
func TestForeign(t *testing.T) {
	t.Parallel()
	h, obj := New(), object("1", "7")
	before := h.Foreign(obj)
	obj.SetResourceVersion("8")
	if before != h.Foreign(obj) {
		t.Error("the version counts")
	}
	obj.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "r"})
	consented := h.Foreign(obj)
	obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Certificate", Name: "x"}})
	if before == consented || consented == h.Foreign(obj) {
		t.Error("the consent does not count, or the owner")
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	h := New()
	if h.With(1) != 1 || h.With(1, 2, 3) == h.With(1, 3, 2) || h.With(1, 2, 3) != h.With(h.With(1, 2), 3) {
		t.Error("the order of what is added does not count as it should")
	}
}
