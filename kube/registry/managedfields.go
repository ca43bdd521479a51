// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// MaxManagedFields is how long the managedFields of a view may be, in bytes of JSON.
const MaxManagedFields = 32 << 10

// ErrManagedFields is returned where the managedFields of a view are longer than MaxManagedFields, or than what its
// annotations leave. Without them the next apply would not know what its last one had set.
var ErrManagedFields = errors.New("metadata.managedFields is too long")

// decodeManagedFields returns none where the annotation was damaged: nobody could write the view, and an apply without
// them begins anew.
func decodeManagedFields(text string) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	if json.Unmarshal([]byte(text), &out) != nil || managedfields.ValidateManagedFields(out) != nil {
		return nil
	}
	return out
}

// setManagedFields puts the managedFields of the view of c into the annotation that is not shown. The API server that
// stores c would drop them: they speak of fields of another group.
func setManagedFields(c *v1alpha1.Cluster, fields []metav1.ManagedFieldsEntry) error {
	c.Annotations = withoutManagedFields(c.Annotations)
	if len(fields) == 0 {
		return nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode metadata.managedFields: %w", err)
	}
	if len(text) > MaxManagedFields {
		return fmt.Errorf("%w: %d bytes, of at most %d: apply under fewer field managers, or fewer fields", ErrManagedFields, len(text), MaxManagedFields)
	}
	if size := annotationsSize(c.Annotations) + len(v1alpha1.AnnotationRegistryManagedFields) + len(text); size > apivalidation.TotalAnnotationSizeLimitB {
		return fmt.Errorf("%w: %d bytes, which are stored with metadata.annotations and make them %d bytes, of at most %d: shorten those", ErrManagedFields, len(text), size, apivalidation.TotalAnnotationSizeLimitB)
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[v1alpha1.AnnotationRegistryManagedFields] = string(text)
	return nil
}

// annotationsSize is what the API server limits.
func annotationsSize(annotations map[string]string) (size int) {
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}
