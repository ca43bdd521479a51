// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// AnnotationShape holds, on a copy, a hash of the paths of the fields that were written: a field that the
// source no longer has is thereby known, also after a restart. It depends on no value.
const AnnotationShape = v1alpha1.Prefix + "copied-fields"

// AnnotationConfirmDeletions on a rule confirms that up to so many copies may be deleted there although
// the guard stopped it. It counts once, as the rule's status remembers. It is local: each cluster confirms for itself.
const AnnotationConfirmDeletions = v1alpha1.LocalPrefix + "confirm-deletions"

// isMark says whether only agents set the label or annotation, or it steers them on the object that it is
// on: none of these is taken over from a source.
func isMark(key string) bool {
	switch key {
	case v1alpha1.AnnotationOwnerClusterID, v1alpha1.AnnotationOriginalGVK,
		v1alpha1.LabelOriginalName, v1alpha1.LabelOriginalNamespace, v1alpha1.AnnotationOriginalKey,
		v1alpha1.AnnotationRule, v1alpha1.AnnotationRuleDeletionPolicy, v1alpha1.AnnotationOrphaned,
		v1alpha1.AnnotationClusterDisabled, v1alpha1.AnnotationSyncDisabled, AnnotationShape, AnnotationSelections:
		return true
	}
	return false
}

// Owner is the cluster that owns a copy, "" for an object that is not one. The annotation counts; the label
// stands in where the annotation was taken away.
func Owner(obj metav1.Object) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return cmp.Or(annotation(u, v1alpha1.AnnotationOwnerClusterID), textOf(metadataMap(u, "labels")[v1alpha1.LabelOwnerClusterID]))
	}
	return cmp.Or(obj.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID], obj.GetLabels()[v1alpha1.LabelOwnerClusterID])
}

// annotation is one of an object's annotations. GetAnnotations makes a map of all of them each time.
func annotation(obj *unstructured.Unstructured, name string) string {
	return textOf(metadataMap(obj, "annotations")[name])
}

func hasAnnotation(obj *unstructured.Unstructured, name string) bool {
	_, ok := metadataMap(obj, "annotations")[name]
	return ok
}

// IsCopy says that an object carries a mark of a copy, even an empty one. Such an object is never a source.
func IsCopy(obj *unstructured.Unstructured) bool {
	_, labelled := metadataMap(obj, "labels")[v1alpha1.LabelOwnerClusterID]
	return labelled || hasAnnotation(obj, v1alpha1.AnnotationOwnerClusterID)
}

// IsNative says that every cluster makes this object for itself, with content of its own. Such an object is
// never a source: a rule for everything in a namespace would only run into those that are there.
func IsNative(obj *unstructured.Unstructured) bool {
	switch gvk := obj.GroupVersionKind(); gvk.Group + "/" + gvk.Kind {
	case "/ConfigMap":
		return obj.GetName() == "kube-root-ca.crt"
	case "/ServiceAccount":
		return obj.GetName() == "default"
	case "/Service", "/Endpoints", "discovery.k8s.io/EndpointSlice":
		return obj.GetName() == "kubernetes" && obj.GetNamespace() == "default"
	}
	return false
}

// MadeBy are the names of the rules that made a copy, in order. It is empty for objects that carry an owner
// for another reason (other parts of the agent, other tools): what becomes of those is not for rules to say.
func MadeBy(obj *unstructured.Unstructured) []string {
	if v := annotation(obj, v1alpha1.AnnotationRule); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// Makes says whether a rule of the name made a copy for the cluster that owns it.
func Makes(name, owner string, copied *unstructured.Unstructured) bool {
	return copied != nil && Owner(copied) == owner && slices.Contains(MadeBy(copied), name)
}

// RuleDeletion is the fate that a copy carries for the time when its rule is gone.
func RuleDeletion(obj *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	if annotation(obj, v1alpha1.AnnotationRuleDeletionPolicy) == string(v1alpha1.DeletionDelete) {
		return v1alpha1.DeletionDelete
	}
	return v1alpha1.DeletionOrphan
}

// Disabled says that the object is withdrawn (at its source) or is to be left alone (a copy).
func Disabled(obj *unstructured.Unstructured) bool {
	return hasAnnotation(obj, v1alpha1.AnnotationSyncDisabled)
}

// Orphaned says that nobody maintains the copy.
func Orphaned(obj *unstructured.Unstructured) bool {
	return hasAnnotation(obj, v1alpha1.AnnotationOrphaned)
}

// Orphan is the copy with the mark of an orphan; everything else stays, the owner's marks too.
func Orphan(copied *unstructured.Unstructured) *unstructured.Unstructured {
	out := copied.DeepCopy()
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationOrphaned] = "true"
	out.SetAnnotations(annotations)
	return out
}

// mark makes an object a copy of what is in a place.
func mark(metadata map[string]any, owner string, rules []*Rule, source, target Place) {
	labels, annotations := child(metadata, "labels"), child(metadata, "annotations")
	labels[v1alpha1.LabelOwnerClusterID] = owner
	annotations[v1alpha1.AnnotationOwnerClusterID] = owner
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	annotations[v1alpha1.AnnotationRule] = strings.Join(names, ",")
	markOrigin(labels, annotations, source, target)
	// Several rules: the copy is deleted with the last of them only if all of them want that.
	if !slices.ContainsFunc(rules, func(r *Rule) bool { return r.ruleDeletion != v1alpha1.DeletionDelete }) {
		annotations[v1alpha1.AnnotationRuleDeletionPolicy] = string(v1alpha1.DeletionDelete)
	}
}

// child is the map under a key, made where it is missing.
func child(m map[string]any, key string) map[string]any {
	if c, ok := m[key].(map[string]any); ok {
		return c
	}
	c := map[string]any{}
	m[key] = c
	return c
}
