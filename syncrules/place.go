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

// Place is where an object is: its kind, namespace ("" if it is cluster-scoped) and name.
type Place struct {
	schema.GroupVersionKind
	Namespace, Name string
}

// PlaceOf returns the place of an object.
func PlaceOf(obj *unstructured.Unstructured) Place {
	return Place{obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName()}
}

// Source returns the place of the source of a copy, from the copy's annotations. Without annotations it is the place of the
// copy itself.
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

// markOrigin adds the place of the source to a copy that is in another place: in full as annotations, and as labels for
// list requests.
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

// labelValue returns a name as the value of a label: the name itself or, if that is not valid, a hash of it.
func labelValue(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:20])
}
