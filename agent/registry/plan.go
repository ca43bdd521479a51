// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// copyPlan is what to do with the local copy of an object in the replica.
type copyPlan int

const (
	copyKeep     copyPlan = iota // do nothing; also when no deletion is proven
	copyWrite                    // create or update it
	copyDelete                   // the deletion at the origin is proven
	copyConflict                 // an object of this cluster's own has that name
	copyOrphan                   // its owner is gone from the group, or has deleted it and is not accepted here
)

// clashOf is the origin of a rule that cannot be copied because this cluster has one of the same name. It is "" if
// there is none, or if both have the same spec, as when one tool applies the same files everywhere.
func clashOf(plan copyPlan, have *v1alpha1.ResourceSyncRule, entry replica.Entry) string {
	if plan != copyConflict {
		return ""
	}
	if other, err := payload.DecodeRule(entry.Origin, entry.Key.Name, entry.Payload); err == nil && equality.Semantic.DeepEqual(other.Spec, have.Spec) {
		return ""
	}
	return entry.Origin
}

// planCopy decides what to do under one name. have is the local object or nil, entries are those of each origin
// (smallest clusterID first), absent proves that an origin has no such object. It is a pure function.
//
//   - A local object is never overwritten.
//   - A copy stays with its owner while that owner may still have the object.
//   - If there is no copy, the live entry of the smallest clusterID is written.
//   - A copy whose owner is gone from the group becomes the copy of another cluster that publishes a rule with the same
//     spec, or else an orphan. An orphan is updated again when its owner returns, and is never deleted.
//   - A copy that its owner has deleted becomes an orphan while the owner's rules are not in force here: so the owner has
//     nothing deleted by that.
func planCopy(self string, have *v1alpha1.ResourceSyncRule, entries []replica.Entry, absent func(replica.Key, string) bool, gone, accepts func(string) bool) (copyPlan, replica.Entry) {
	var first, owned *replica.Entry
	holder := ""
	if have != nil {
		holder = syncrules.Owner(have)
	}
	for i, e := range entries {
		if e.Origin == self {
			continue
		}
		if e.Origin == holder {
			owned = &entries[i]
		}
		if first == nil && e.Status == replica.Live {
			first = &entries[i]
		}
	}
	switch {
	case have == nil && first != nil:
		return copyWrite, *first
	case have == nil:
		return copyKeep, replica.Entry{}
	case holder == "" && first != nil:
		return copyConflict, *first
	case holder == "" || holder == self || payload.Has(have, v1alpha1.AnnotationSyncDisabled):
		return copyKeep, replica.Entry{}
	case gone(holder):
		if other := sameRule(self, have, entries); other != nil {
			return copyWrite, *other
		}
		if !payload.Has(have, v1alpha1.AnnotationOrphaned) {
			return copyOrphan, replica.Entry{}
		}
		return copyKeep, replica.Entry{}
	case owned != nil && owned.Status == replica.Live:
		return copyWrite, *owned
	case payload.Has(have, v1alpha1.AnnotationOrphaned):
		return copyKeep, replica.Entry{}
	case owned != nil: // withdrawn: the copy stays and is no longer updated
		return copyKeep, replica.Entry{}
	case absent(replica.Key{Kind: replica.KindRule, Name: have.GetName()}, holder):
		if !accepts(holder) {
			return copyOrphan, replica.Entry{}
		}
		return copyDelete, replica.Entry{}
	}
	return copyKeep, replica.Entry{}
}

// sameRule is the entry of a member that publishes a rule with the same spec as have; nil if there is none, or if
// only a stub of have is here.
func sameRule(self string, have *v1alpha1.ResourceSyncRule, entries []replica.Entry) *replica.Entry {
	if payload.Has(have, v1alpha1.AnnotationNotUnderstood) {
		return nil
	}
	for i, e := range entries {
		if e.Origin == self || e.Status != replica.Live {
			continue
		}
		if other, err := payload.DecodeRule(e.Origin, e.Key.Name, e.Payload); err == nil && other.NotUnderstood == "" && equality.Semantic.DeepEqual(other.Spec, have.Spec) {
			return &entries[i]
		}
	}
	return nil
}

// watchCost is what a rule is charged with, in bytes, for each namespace that it did not name before: the engine opens a watch for it at each
// source, and every one of these is a list and more for an API server.
const watchCost = 32 << 10

// watchesCost is what the watches cost that a rule needs and did not need before: all, where it may not have been in force.
func watchesCost(before, now *v1alpha1.ResourceSyncRule) int {
	rule, err := syncrules.Compile(now)
	if err != nil {
		return 0 // it is not in force
	}
	var known []syncrules.Scope
	if before != nil && before.Spec.Paused == now.Spec.Paused && equality.Semantic.DeepEqual(before.Spec.Targets, now.Spec.Targets) &&
		equality.Semantic.DeepEqual(before.Spec.ClusterFeatureMatches, now.Spec.ClusterFeatureMatches) {
		if was, err := syncrules.Compile(before); err == nil && was.Kind() == rule.Kind() {
			known = was.Scopes()
		}
	}
	needs := slices.DeleteFunc(rule.Scopes(), func(s syncrules.Scope) bool { return slices.Contains(known, s) })
	return watchCost * len(needs)
}
