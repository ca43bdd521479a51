// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Place is where an object is: its kind, namespace (empty outside namespaces) and name.
type Place struct {
	schema.GroupVersionKind
	Namespace, Name string
}

// PlaceOf is the place that an object says it is in.
func PlaceOf(obj *unstructured.Unstructured) Place {
	return Place{obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName()}
}

// Source is the place that a copy was made from, as its marks tell. The version is that of the copy where the
// marks do not tell another.
func Source(copied *unstructured.Unstructured) Place {
	place := PlaceOf(copied)
	if gvk, ok := parseKind(annotation(copied, v1alpha1.AnnotationOriginalGVK)); ok {
		place.GroupVersionKind = gvk
	}
	if namespace, name, ok := strings.Cut(annotation(copied, v1alpha1.AnnotationOriginalKey), "/"); ok && name != "" {
		place.Namespace, place.Name = namespace, name
	}
	return place
}

// markOrigin makes a copy that is not in the place of its source tell where that is: in full in annotations,
// and in labels, to list by.
func markOrigin(labels, annotations map[string]any, source, target Place) {
	if source == target {
		return
	}
	annotations[v1alpha1.AnnotationOriginalKey] = source.Namespace + "/" + source.Name
	if source.GroupVersionKind != target.GroupVersionKind {
		annotations[v1alpha1.AnnotationOriginalGVK] = formatKind(source.GroupVersionKind)
	}
	if source.Name != target.Name {
		labels[v1alpha1.LabelOriginalName] = labelValue(source.Name)
	}
	if source.Namespace != target.Namespace {
		labels[v1alpha1.LabelOriginalNamespace] = labelValue(source.Namespace)
	}
}

// formatKind writes a kind as in Deployment.apps/v1 and Secret./v1.
func formatKind(gvk schema.GroupVersionKind) string {
	return gvk.Kind + "." + gvk.Group + "/" + gvk.Version
}

func parseKind(text string) (schema.GroupVersionKind, bool) {
	kind, rest, dotted := strings.Cut(text, ".")
	group, version, slashed := strings.Cut(rest, "/")
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	return gvk, dotted && slashed && kind != "" && version != ""
}

// labelValue is a name as the value of a label: itself, or a hash of one that is too long or is not made for
// labels.
func labelValue(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:20])
}
