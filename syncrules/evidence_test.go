// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"strings"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// The cases that only agents have. The others are in package claimtest.
func TestWeigh(t *testing.T) {
	lost := Evidence{
		Rule: "r", Cluster: "beta", Made: true, Relation: Asks, Found: FoundLacking, Selected: true, Counted: true, Complete: true,
		Deletion: v1alpha1.DeletionDelete, RuleDeletion: v1alpha1.DeletionOrphan,
	}
	for _, c := range []struct {
		name     string
		change   func(*Evidence)
		standing Standing
		why      string
	}{
		{"lacking", func(*Evidence) {}, Gone, "its source is gone in cluster beta"},
		{"not counted yet", func(e *Evidence) { e.Counted = false }, Unknown, "are being counted"},
		{"deleted, which needs no counting", func(e *Evidence) { e.Found, e.Counted = FoundDeleted, false }, Gone, "gone"},
		{"deleted, before all copies are known", func(e *Evidence) { e.Found, e.Complete = FoundDeleted, false }, Unknown, "are being counted"},
		{"its marks lead elsewhere", func(e *Evidence) { e.Unread = true }, Unknown, "what cluster beta has is not known now"},
		{"edited", func(e *Evidence) { e.Selected = false }, Released, "was edited"},
		{"edited while it was stopped", func(e *Evidence) { e.Selected, e.Suspect, e.Counted = false, true, false }, Unknown, "are being counted"},
		{"the same, and counted", func(e *Evidence) { e.Selected, e.Suspect = false, true }, Released, "was edited"},
		{"asked just now", func(e *Evidence) { e.Found = FoundAwaited }, Awaited, "has not answered yet"},
		{"asked just now, and it did not make it", func(e *Evidence) { e.Found, e.Made = FoundAwaited, false }, Awaited, ""},
		{"not known, and it did not make it", func(e *Evidence) { e.Found, e.Made = FoundUnknown, false }, Unknown, ""},
		{"its relation is not known", func(e *Evidence) { e.Relation, e.Why = Unclear, "not yet" }, Unknown, "not yet"},
		{"unusable", func(e *Evidence) { e.Relation, e.Why = Unusable, "no" }, Held, "no"},
	} {
		var s Summary
		e := lost
		c.change(&e)
		s.Weigh(e)
		got, heard := s.Conclude(Claim{}, false)
		if !heard || got.Standing != c.standing || !strings.Contains(got.Reason, c.why) || got.Reason == "" != (c.why == "") {
			t.Errorf("%s: %d, %q; want %d, %q", c.name, got.Standing, got.Reason, c.standing, c.why)
		}
	}
}

// A rule that did not make the copy neither holds nor releases it.
func TestWeighOfOthers(t *testing.T) {
	for _, e := range []Evidence{
		{Relation: Excludes, Why: "x"},
		{Relation: Unclear, Why: "x"},
		{Relation: Stopped, Why: "x"},
		{Relation: Unusable, Why: "x"},
		{Relation: Asks, Found: FoundLacking},
		{Relation: Asks, Found: FoundDeleted},
		{Relation: Asks, Found: FoundElsewhere},
	} {
		var s Summary
		s.Weigh(e)
		if _, heard := s.Conclude(Claim{}, false); heard {
			t.Errorf("%+v is heard", e)
		}
	}
	var s Summary
	s.Weigh(Evidence{Relation: Asks, Found: FoundPresent, Obstacle: "it is withdrawn"})
	if c, _ := s.Conclude(Claim{}, true); c.Standing != Held {
		t.Errorf("what its source holds is offered: %+v", c)
	}
}
