// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adopt says which objects of a cluster rules may take over: those of rules with conflictPolicy Adopt, with the
// consent of an annotation on the object, if nobody else keeps the object as it is. It is pure.
package adopt

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// Refuses is why an object that is no copy is not adopted by rules that would, "" if it is.
func Refuses(obj *unstructured.Unstructured, rules []string) string {
	if obj.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			return "it belongs to " + owner.Kind + " " + owner.Name + ", which would change it back"
		}
	}
	for _, set := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			if others.Owns(key, set[key]) {
				return "another tool keeps it as it is, as " + key + " says"
			}
		}
	}
	if _, disabled := obj.GetAnnotations()[v1alpha1.AnnotationSyncDisabled]; disabled {
		return "it has the annotation " + v1alpha1.AnnotationSyncDisabled
	}
	for name := range strings.SplitSeq(obj.GetAnnotations()[v1alpha1.AnnotationAdopt], ",") {
		if slices.Contains(rules, strings.TrimSpace(name)) {
			return ""
		}
	}
	return "to consent, annotate it here with " + v1alpha1.AnnotationAdopt + "=" + rules[0]
}

// Mark marks an object as one that was there before it became a copy. A copy keeps the mark, which is local.
func Mark(obj *unstructured.Unstructured) {
	all := obj.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[v1alpha1.AnnotationAdopted] = "true"
	obj.SetAnnotations(all)
}

// Marked says that a copy was adopted. It is never deleted, since no agent has made it.
func Marked(obj *unstructured.Unstructured) bool {
	_, marked := obj.GetAnnotations()[v1alpha1.AnnotationAdopted]
	return marked
}
