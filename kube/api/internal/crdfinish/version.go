// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strconv"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// addVersions writes into a CRD which version of the schemas it is, and who may work with it.
func addVersions(tree map[string]any) error {
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		return errors.New("a CRD without metadata")
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[v1alpha1.AnnotationSchemaVersion] = strconv.Itoa(v1alpha1.SchemaVersion)
	annotations[v1alpha1.AnnotationSchemaOldestAgent] = strconv.Itoa(v1alpha1.SchemaOldestAgent)
	return nil
}
