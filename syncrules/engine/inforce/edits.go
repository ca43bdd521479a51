// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"slices"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	// maxEdits is how many watches that were not decided about are opened because rules in force are edited, maxEditsOf those of one author.
	maxEdits   = MaxAllViews / 16
	maxEditsOf = maxEdits / 4
)

// Edits lets rules that are edited stay in force until Decide is asked again, so that not all of their watches end and are begun anew.
type Edits struct {
	watches int // that rules need now and did not before
	of      map[string]int
}

// Keep says that a rule in force of an author stays in force until then: it needs no more watches than before, and of others only some. All
// rules may have needed the same watches, and each may need others now.
func (e *Edits) Keep(author string, before, now []place.Scope) bool {
	others := 0
	for _, s := range now {
		if !slices.Contains(before, s) {
			others++
		}
	}
	if len(now) > len(before) || e.watches+others > maxEdits || e.of[author]+others > maxEditsOf {
		return false
	}
	if e.of == nil {
		e.of = map[string]int{}
	}
	e.of[author] += others
	e.watches += others
	return true
}

// Edited are the rules of which what they select was another thing before, or nothing. Both maps have it by name.
func Edited(before, now map[string]string) map[string]bool {
	rules := map[string]bool{}
	for rule, selection := range now {
		if was, judged := before[rule]; !judged || was != selection {
			rules[rule] = true
		}
	}
	for rule := range before {
		if _, judges := now[rule]; !judges {
			rules[rule] = true
		}
	}
	return rules
}

// About tells, by the names of rules that something has, whether it is about some rules.
func About(rules map[string]bool) func(names []string) bool {
	return func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return rules[name] })
	}
}

// Everything is About all rules, whether something names any or not.
func Everything([]string) bool { return true }
