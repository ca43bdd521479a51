// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// maxOrphans is how many orphans a condition names.
const maxOrphans = 8

// orphaned keeps the orphans of each rule. Engine.mu is held.
func (s *copySet) orphaned(at types.NamespacedName, c *copied, there bool) {
	if !c.orphaned {
		return
	}
	for _, rule := range c.rules {
		if !there {
			delete(s.orphans[rule], at)
			if len(s.orphans[rule]) == 0 {
				delete(s.orphans, rule)
			}
			continue
		}
		if s.orphans == nil {
			s.orphans = map[string]map[types.NamespacedName]struct{}{}
		}
		if s.orphans[rule] == nil {
			s.orphans[rule] = map[types.NamespacedName]struct{}{}
		}
		s.orphans[rule][at] = struct{}{}
	}
}

// firstOrphans are the first places of a set by namespace and name: each is looked at once, and no more than those that
// are named are held.
func firstOrphans(all map[types.NamespacedName]struct{}) []types.NamespacedName {
	first := make([]types.NamespacedName, 0, maxOrphans+1)
	for at := range all {
		i, _ := slices.BinarySearchFunc(first, at, place.CompareNames)
		if i < maxOrphans {
			first = slices.Insert(first, i, at)
			first = first[:min(len(first), maxOrphans)]
		}
	}
	return first
}

// orphansCondition names the orphans of a rule in the kinds and namespaces that it is about now. mu is held.
func (e *Engine) orphansCondition(r *rule) (metav1.Condition, bool) {
	n, names := 0, []string{}
	for gk, set := range e.copies {
		n += len(set.orphans[r.name])
		for _, at := range firstOrphans(set.orphans[r.name]) {
			names = append(names, place.At(gk, at).String())
		}
	}
	if n == 0 {
		return metav1.Condition{}, false
	}
	slices.Sort(names)
	text := strings.Join(names[:min(len(names), maxOrphans)], ", ")
	if more := n - min(len(names), maxOrphans); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return metav1.Condition{
		Type: ConditionOrphans, Status: metav1.ConditionTrue, Reason: "NotMaintained", ObservedGeneration: r.gen,
		Message: problem.Bounded(fmt.Sprintf("%d copies that this rule made are not maintained any more: %s; delete them, or keep them: when the rule selects their source again they are taken back", n, text), problem.MaxMessage),
	}, true
}
