// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package anew

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestKind(t *testing.T) {
	t.Parallel()
	for kind, want := range map[schema.GroupKind]bool{
		{Kind: "Service"}: true, {Group: "apps", Kind: "DaemonSet"}: true,
		{Group: "batch", Kind: "Job"}: false, {Kind: "PersistentVolumeClaim"}: false, {Group: "example.com", Kind: "Service"}: false,
	} {
		if Kind(kind) != want {
			t.Errorf("%s: %t", kind, !want)
		}
	}
}

func TestTurnsHeadless(t *testing.T) {
	t.Parallel()
	object := func(kind, ip, is string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind, "spec": map[string]any{"clusterIP": ip, "type": is},
		}}
	}
	for _, c := range []struct {
		local, desired *unstructured.Unstructured
		want           bool
	}{
		{object("Service", "10.0.0.1", "ClusterIP"), object("Service", "None", "ClusterIP"), true},
		{object("Service", "None", "ClusterIP"), object("Service", "", "ClusterIP"), true},
		{object("Service", "10.0.0.1", "ClusterIP"), object("Service", "", "ClusterIP"), false},
		{object("Service", "", "ExternalName"), object("Service", "None", "ClusterIP"), false},
		{object("Widget", "10.0.0.1", ""), object("Widget", "None", ""), false},
	} {
		if TurnsHeadless(c.local, c.desired) != c.want {
			t.Errorf("%v to %v: %t", c.local.Object, c.desired.Object, !c.want)
		}
	}
}
