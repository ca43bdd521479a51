// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// copyPlan is what to do about the local copy of a replicated object.
type copyPlan int

const (
	copyKeep     copyPlan = iota // nothing, or nothing that is proven
	copyWrite                    // create it or bring it up to date
	copyDelete                   // it is proven to be gone
	copyConflict                 // the name is taken by an object of this cluster's own
	copyOrphan                   // its owner is not in the group any more
)

// clashOf is the origin whose rule cannot be copied because this cluster has one of the same name; "" when
// there is none, or when both say the same, as where one tool applies the same files everywhere.
func clashOf(plan copyPlan, have *v1alpha1.ResourceSyncRule, entry replica.Entry) string {
	if plan != copyConflict {
		return ""
	}
	if other, err := payload.DecodeRule(entry.Origin, entry.Key.Name, entry.Payload); err == nil && equality.Semantic.DeepEqual(other.Spec, have.Spec) {
		return ""
	}
	return entry.Origin
}

// planCopy decides about one name: have is the local object or nil, entries what each origin says (smallest
// clusterID first), absent the proof that an origin has no such object. It is pure.
//
//   - A local object is never overwritten.
//   - A copy stays with its owner while that owner may still have the object.
//   - Where there is no copy, the live entry of the smallest clusterID is written.
//   - A copy whose owner is gone from the group becomes an orphan, or the copy of another cluster that publishes the
//     very same rule. An orphan is taken back by its owner, and never deleted.
func planCopy(self string, have *v1alpha1.ResourceSyncRule, entries []replica.Entry, absent func(replica.Key, string) bool, gone func(string) bool) (copyPlan, replica.Entry) {
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
		if heir := sameRule(self, have, entries); heir != nil {
			return copyWrite, *heir
		}
		if !payload.Has(have, v1alpha1.AnnotationOrphaned) {
			return copyOrphan, replica.Entry{}
		}
		return copyKeep, replica.Entry{}
	case owned != nil && owned.Status == replica.Live:
		return copyWrite, *owned
	case payload.Has(have, v1alpha1.AnnotationOrphaned):
		return copyKeep, replica.Entry{}
	case owned != nil: // withdrawn: it stays, unmaintained
		return copyKeep, replica.Entry{}
	case absent(replica.Key{Kind: replica.KindRule, Name: have.GetName()}, holder):
		return copyDelete, replica.Entry{}
	}
	return copyKeep, replica.Entry{}
}

// sameRule is the entry of a member that publishes the very rule that have is a copy of; nil when none does.
func sameRule(self string, have *v1alpha1.ResourceSyncRule, entries []replica.Entry) *replica.Entry {
	for i, e := range entries {
		if e.Origin == self || e.Status != replica.Live {
			continue
		}
		if other, err := payload.DecodeRule(e.Origin, e.Key.Name, e.Payload); err == nil && equality.Semantic.DeepEqual(other.Spec, have.Spec) {
			return &entries[i]
		}
	}
	return nil
}
