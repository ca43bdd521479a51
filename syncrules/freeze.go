// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// A copy is frozen (Freeze) when it stays as it is, although it may differ from what it should be. Where the reason is
// declared depends on what it is about:
//
//	the copy itself, such as an annotation on it     freezesCopy
//	the source object                                Obstacle
//	the rule or the two clusters, such as a pause    Relation: Unusable, Refused, Unclear, Stopped
//	that the rule only looks                         Evidence.Observes
//	what is not known about the source               Weigh, from Evidence
//	the owner of the copy                            planCopy
//	the deletion guard                               package engine, where it makes a rule Stopped
//
// Each reason is one sentence for people. Agents and "agentctl rules explain" use the same functions, and say the same.

// freezesCopy returns why a copy is left as it is, whatever the rules say; "" if nothing about the copy does that.
func freezesCopy(copied *unstructured.Unstructured) string {
	switch {
	case copied.GetDeletionTimestamp() != nil:
		return "the copy is being deleted"
	case Disabled(copied):
		return "the copy has the annotation " + v1alpha1.AnnotationSyncDisabled
	}
	return ""
}

// Obstacle returns why an object is not copied now although rules may select it; "" if nothing prevents that. Copies of
// an object that is held are frozen. An object that is not held is no source at all.
func Obstacle(obj *unstructured.Unstructured) (why string, held bool) {
	switch {
	case IsCopy(obj):
		return "it is a copy, and a copy is never a source", false
	case IsNative(obj):
		return "every cluster makes this object for itself", false
	case Disabled(obj):
		return "it is withdrawn by the annotation " + v1alpha1.AnnotationSyncDisabled, true
	case obj.GetDeletionTimestamp() != nil:
		return "it is being deleted", true
	}
	return "", false
}

// IsNative says whether every cluster makes the object for itself.
func IsNative(obj *unstructured.Unstructured) bool {
	gvk := obj.GroupVersionKind()
	return others.Native(gvk.Group, gvk.Kind, obj.GetNamespace(), obj.GetName())
}

// IsSource says that the object is of the cluster that it is in.
func IsSource(obj *unstructured.Unstructured) bool { return !IsCopy(obj) && !IsNative(obj) }
