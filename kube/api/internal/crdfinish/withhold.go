// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withhold takes fields that programs know already out of the CRD of Clusters: an API server has them only once every
// agent that may run at it knows them.
func withhold(tree map[string]any) error {
	crd := unstructured.Unstructured{Object: tree}
	if crd.GetName() != "clusters.clusterregistry.k8s.cisco.com" {
		return nil
	}
	versions, _, err := unstructured.NestedSlice(tree, "spec", "versions")
	if err != nil || len(versions) != 1 {
		return fmt.Errorf("%d versions: %w", len(versions), err)
	}
	version, _ := versions[0].(map[string]any)
	spec := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
	for _, field := range [][]string{
		{"authInfo", "properties", "user"},
		{"authInfo", "properties", "controller"},
		{"kubernetesApiEndpoints", "items", "properties", "clientCIDR"},
	} {
		unstructured.RemoveNestedField(version, append(spec, field...)...)
	}
	return unstructured.SetNestedSlice(tree, versions, "spec", "versions")
}
