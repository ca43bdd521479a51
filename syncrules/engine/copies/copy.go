// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// Copy is an object of the local API server that carries an owner.
type Copy struct {
	Object       packed.Object
	Version      string // resourceVersion
	Owner        string
	Rules        []string                // that made it
	Selections   []string                // the selections that these had then
	MovedFrom    *place.Key              // the place of its source, if that is another than its own
	RuleDeletion v1alpha1.DeletionPolicy // when its rule is gone
	Orphaned     bool
	Disabled     bool
	// Unseen says that it is known from the answer to our own write at this time, and that the watch
	// has not told of it yet.
	Unseen time.Time
	// Accepted is what the server made of it, where that is not what was asked for; Tolerated says that
	// labels or annotations which nobody asked for came back too often.
	Accepted  syncrules.Accepted
	Tolerated bool
	// Dropped are the fields, for people, that the server did not keep of what was accepted.
	Dropped string
	// Author is who it counts for: who has it written knows it, and who only sees it takes that of the oldest of Rules. When these are gone it stays, and
	// where nobody knows it is "", and the copy counts for the owner.
	Author string
}

// New reads a copy; nil when no API server can have sent the object. An object without marks has no Owner.
func New(obj *unstructured.Unstructured) *Copy {
	data, err := packed.Pack(obj)
	if err != nil {
		return nil // no API server sent it
	}
	out := &Copy{
		Object: data, Version: obj.GetResourceVersion(), Owner: syncrules.Owner(obj), Rules: syncrules.MadeBy(obj), Selections: syncrules.Selections(obj),
		RuleDeletion: syncrules.RuleDeletion(obj), Orphaned: syncrules.Orphaned(obj), Disabled: syncrules.Disabled(obj),
	}
	from := syncrules.Source(obj)
	if k := (place.Key{GroupKind: from.GroupKind(), Namespace: from.Namespace, Name: from.Name}); k != place.KeyOf(obj.GroupVersionKind().GroupKind(), obj) {
		out.MovedFrom = &k
	}
	return out
}

// perCopy is what a copy takes beside its bytes, and beside what its source takes (package memory).
const perCopy = 768

// Weight is what a copy of so many bytes takes.
func Weight(bytes int64) int64 { return bytes + perCopy }

// Weight is what it takes.
func (c *Copy) Weight() int64 { return Weight(int64(len(c.Object))) }

// Source is the place that the copy at k was made from.
func (c *Copy) Source(k place.Key) place.Key {
	if c.MovedFrom != nil {
		return *c.MovedFrom
	}
	return k
}

// DecidedBy says that the rule decides about the copy: it made it, and the copy is neither let go nor set aside.
func (c *Copy) DecidedBy(rule string) bool {
	return !c.Disabled && c.MadeBy(rule)
}

// MadeBy says that the rule made it, and did not let go of it; somebody may have set it aside.
func (c *Copy) MadeBy(rule string) bool { return !c.Orphaned && slices.Contains(c.Rules, rule) }

// CountsLike says that the two, both at k, are the same for all that is counted of copies.
func (c *Copy) CountsLike(o *Copy, k place.Key) bool {
	return c.Owner == o.Owner && c.Orphaned == o.Orphaned && c.Disabled == o.Disabled && c.Source(k) == o.Source(k) &&
		slices.Equal(c.Rules, o.Rules) && slices.Equal(c.Selections, o.Selections)
}

// SelectedBy says that the rule selected the source of the copy in its present form. Otherwise it may have let go
// of it by an edit.
func (c *Copy) SelectedBy(rule, selection string) bool {
	return syncrules.SelectedBy(c.Rules, c.Selections, rule, selection)
}

// Newer says whether resourceVersion a is not before b. Versions that cannot be compared count as newer.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order >= 0
}
