// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// AnnotationShape holds, on a copy, a hash of the paths of the fields that were written. It shows that a field was removed
// at the source, also after a restart. It does not depend on values.
const AnnotationShape = v1alpha1.Prefix + "copied-fields"

// AnnotationConfirmDeletions on a rule confirms that up to this many copies may be deleted although the deletion guard has
// stopped the rule. It counts once; the rule's status remembers that. It is local: each cluster confirms for itself.
const AnnotationConfirmDeletions = v1alpha1.LocalPrefix + "confirm-deletions"

// isMark says whether a label or annotation is one that only agents set, or an instruction to the agents about this one
// object. None of these is copied from a source.
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

// Owner returns the clusterID of the cluster that owns a copy; "" if the object is not a copy. It is read from the
// annotation or, if that was removed, from the label.
func Owner(obj metav1.Object) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return cmp.Or(annotation(u, v1alpha1.AnnotationOwnerClusterID), textOf(metadataMap(u, "labels")[v1alpha1.LabelOwnerClusterID]))
	}
	return cmp.Or(obj.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID], obj.GetLabels()[v1alpha1.LabelOwnerClusterID])
}

// annotation returns one of an object's annotations. GetAnnotations would make a map of all of them each time.
func annotation(obj *unstructured.Unstructured, name string) string {
	return textOf(metadataMap(obj, "annotations")[name])
}

func hasAnnotation(obj *unstructured.Unstructured, name string) bool {
	_, ok := metadataMap(obj, "annotations")[name]
	return ok
}

// IsCopy says whether an object carries the owner of a copy, even an empty one. Such an object is never a source.
func IsCopy(obj *unstructured.Unstructured) bool {
	_, labelled := metadataMap(obj, "labels")[v1alpha1.LabelOwnerClusterID]
	return labelled || hasAnnotation(obj, v1alpha1.AnnotationOwnerClusterID)
}

// MadeBy returns the names of the rules that made a copy, in order. It is empty for objects that carry an owner for another
// reason (other parts of the agent, other tools): rules never delete those.
func MadeBy(obj *unstructured.Unstructured) []string {
	if v := annotation(obj, v1alpha1.AnnotationRule); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// Makes says whether a rule made a copy of an object of this owner.
func Makes(name, owner string, copied *unstructured.Unstructured) bool {
	return copied != nil && Owner(copied) == owner && slices.Contains(MadeBy(copied), name)
}

// RuleDeletion returns the policy that a copy carries for the time when its rule is gone.
func RuleDeletion(obj *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	if annotation(obj, v1alpha1.AnnotationRuleDeletionPolicy) == string(v1alpha1.DeletionDelete) {
		return v1alpha1.DeletionDelete
	}
	return v1alpha1.DeletionOrphan
}

// Disabled says whether an object has the annotation sync-disabled: a source is withdrawn, a copy is left as it is.
func Disabled(obj *unstructured.Unstructured) bool {
	return hasAnnotation(obj, v1alpha1.AnnotationSyncDisabled)
}

// Orphaned says whether a copy is an orphan: nobody maintains it any more.
func Orphaned(obj *unstructured.Unstructured) bool {
	return hasAnnotation(obj, v1alpha1.AnnotationOrphaned)
}

// Orphan returns the copy with the mark of an orphan. Everything else stays, also the owner.
func Orphan(copied *unstructured.Unstructured) *unstructured.Unstructured {
	out := copied.DeepCopy()
	child(child(out.Object, "metadata"), "annotations")[v1alpha1.AnnotationOrphaned] = "true"
	return out
}

// Adopt takes from a copy what agents put on it, so that none touches it again.
func Adopt(copied *unstructured.Unstructured) {
	for _, part := range []string{"labels", "annotations"} {
		maps.DeleteFunc(metadataMap(copied, part), func(k string, _ any) bool { return isMark(k) && k != v1alpha1.AnnotationSyncDisabled })
	}
}

// mark adds the labels and annotations of a copy: its owner, its rules, and the place of its source.
func mark(metadata map[string]any, owner string, rules []*Rule, source, target Place) {
	labels, annotations := child(metadata, "labels"), child(metadata, "annotations")
	labels[v1alpha1.LabelOwnerClusterID] = owner
	annotations[v1alpha1.AnnotationOwnerClusterID] = owner
	annotations[v1alpha1.AnnotationRule] = strings.Join(namesOf(rules), ",")
	markOrigin(labels, annotations, source, target)
	// With several rules, the copy is deleted with the last of them only if all of them say so.
	if !slices.ContainsFunc(rules, func(r *Rule) bool { return r.ruleDeletion != v1alpha1.DeletionDelete }) {
		annotations[v1alpha1.AnnotationRuleDeletionPolicy] = string(v1alpha1.DeletionDelete)
	}
}

func namesOf(rules []*Rule) []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

// child returns the map under a key, which it adds if there is none.
func child(m map[string]any, key string) map[string]any {
	if c, ok := m[key].(map[string]any); ok {
		return c
	}
	c := map[string]any{}
	m[key] = c
	return c
}
