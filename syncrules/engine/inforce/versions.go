// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
)

// Version is the one in which objects of a kind are looked at, and the rule that it is of. It is empty while no rule is about the kind.
type Version struct {
	schema.GroupVersionKind

	Rule string
}

// Wish is a version that a rule is about, beside the one that its kind has.
type Wish struct {
	Has   *Version
	Wants schema.GroupVersionKind
}

// Clash gives a rule the versions that it is about where their kinds have none yet. If a kind has another one, the rule takes none, and clash says which
// older rule that one is of. Older rules must have taken theirs.
func Clash(rule string, wishes []Wish) (clash string) {
	for _, w := range wishes {
		if !w.Has.Empty() && w.Has.GroupVersionKind != w.Wants {
			return syncrules.ClashText(w.Wants, w.Has.Rule, w.Has.Version)
		}
	}
	for _, w := range wishes {
		if w.Has.Empty() {
			*w.Has = Version{w.Wants, rule}
		}
	}
	return ""
}
