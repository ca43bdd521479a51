// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package anew

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind names the kinds whose copies are deleted and made anew when a field has changed that cannot be. What they lose by
// that comes back by itself; a Job would run again, and a volume claim would lose its data.
func Kind(kind schema.GroupKind) bool {
	switch kind {
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Group: "apps", Kind: "Deployment"},
		schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return true
	}
	return false
}

// TurnsHeadless says that a Service would have to lose or get its address. No API server does that, and some crash
// when they are asked to (v1.36, where the headless one has two address families).
func TurnsHeadless(local, desired *unstructured.Unstructured) bool {
	if desired.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Service"}) {
		return false
	}
	headless := func(obj *unstructured.Unstructured) bool {
		ip, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterIP")
		return ip == "None"
	}
	external := func(obj *unstructured.Unstructured) bool {
		is, _, _ := unstructured.NestedString(obj.Object, "spec", "type")
		return is == "ExternalName"
	}
	return headless(local) != headless(desired) && !external(local) && !external(desired)
}
