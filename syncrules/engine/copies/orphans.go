// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// maxNamed is how many orphans a condition names.
const maxNamed = 8

// OrphansCondition names the orphans of a rule in the kinds and namespaces that it is about now; false where there are none.
func (x *Index) OrphansCondition(rule string) (metav1.Condition, bool) {
	n, names := x.Orphans(rule, maxNamed)
	if n == 0 {
		return metav1.Condition{}, false
	}
	text := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return metav1.Condition{
		Status: metav1.ConditionTrue, Reason: "NotMaintained",
		Message: fmt.Sprintf("%d copies that this rule made are not maintained any more: %s; delete them, or keep them: when the rule selects their source again they are taken back", n, text),
	}, true
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
