// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Secrets are what the quickstart copies.
func Secrets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

// Clusters are the Cluster objects.
func Clusters() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("clusters")
}

// Rules are the ResourceSyncRules.
func Rules() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("resourcesyncrules")
}

// Features are the ClusterFeatures.
func Features() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("clusterfeatures")
}

// ConditionTrue returns nil when the object's condition is True, else an error that says what it is.
func ConditionTrue(u *unstructured.Unstructured, kind string) error {
	condition := Condition(u, kind)
	if condition == nil {
		return fmt.Errorf("%s has no condition %s", u.GetName(), kind)
	}
	if condition["status"] != "True" {
		return fmt.Errorf("%s: %s=%v (%v): %v", u.GetName(), kind, condition["status"], condition["reason"], condition["message"])
	}
	return nil
}

// Condition returns a condition of an object, or nil.
func Condition(u *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return m
		}
	}
	return nil
}
