// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Orphans are how many orphans there are that a rule made, and the first of them for people, at most most.
func (x *Index) Orphans(rule string, most int) (n int, first []string) {
	for gk, set := range x.kinds {
		n += len(set.orphans[rule])
		for _, name := range firstOf(set.orphans[rule], most) {
			first = append(first, place.At(gk, name).String())
		}
	}
	slices.Sort(first)
	return n, first[:min(len(first), most)]
}

// firstOf are the first of a set by namespace and name: each is looked at once, and no more than those that are returned
// are held.
func firstOf(all names, most int) []types.NamespacedName {
	first := make([]types.NamespacedName, 0, min(len(all), most)+1)
	for name := range all {
		i, _ := slices.BinarySearchFunc(first, name, place.CompareNames)
		if i < most {
			first = slices.Insert(first, i, name)
			first = first[:min(len(first), most)]
		}
	}
	return first
}

func (s *kind) addOrphan(name types.NamespacedName, c *Copy) {
	for _, rule := range c.Rules {
		if s.orphans == nil {
			s.orphans = map[string]names{}
		}
		if s.orphans[rule] == nil {
			s.orphans[rule] = names{}
		}
		s.orphans[rule][name] = struct{}{}
	}
}

func (s *kind) removeOrphan(name types.NamespacedName, c *Copy) {
	for _, rule := range c.Rules {
		delete(s.orphans[rule], name)
		if len(s.orphans[rule]) == 0 {
			delete(s.orphans, rule)
		}
	}
}
