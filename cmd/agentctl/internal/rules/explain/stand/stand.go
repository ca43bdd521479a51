// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stand says where a copy stands, by what was decided about it.
package stand

import (
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/drift"
)

// Where a copy stands.
const (
	InSync  = "inSync"
	Pending = "pending" // a write is needed, and would be taken
	Gone    = "gone"    // its source is: the copy would be deleted or orphaned
	Blocked = "blocked" // something is in the way
	Unknown = "unknown"
	None    = "none" // nothing is copied there
	// Offered are objects of this cluster that a rule copies to others; how those stand is for them to say.
	Offered = "offered"
	// Observed is a place that only rules with mode Observe are about: nothing is written there.
	Observed = "observed"
)

// HeldBack is the claim that would have made a copy where there is none, but for what it says.
func HeldBack(facts syncrules.Facts, d syncrules.Decision) *syncrules.Claim {
	if facts.Local != nil || d.Action != syncrules.None {
		return nil
	}
	for i := range facts.Claims {
		if c := &facts.Claims[i]; c.Standing == syncrules.Held || c.Standing == syncrules.Unknown {
			return c
		}
	}
	return nil
}

// Look says what would become of an object by a decision that nobody acts on.
func Look(facts syncrules.Facts, d syncrules.Decision) string {
	kind, held := drift.Of(d, facts.Local), HeldBack(facts, d)
	switch {
	case kind != drift.None:
		return kind.Text(d)
	case held != nil:
		return "would not be copied: " + held.Reason
	case d.Action == syncrules.Freeze, d.Action == syncrules.Conflict:
		return "would be left alone: " + d.Reason
	}
	return "is as the rule would have it"
}

// Of reads a decision and what it was made of.
func Of(d syncrules.Decision, facts syncrules.Facts) string {
	switch d.Action {
	case syncrules.Create, syncrules.Update, syncrules.UpdateStatus:
		return Pending
	case syncrules.Delete, syncrules.MarkOrphan:
		return Gone
	case syncrules.Conflict:
		return Blocked
	case syncrules.Freeze:
		for _, c := range facts.Claims {
			if c.Origin == d.Owner && (c.Standing == syncrules.Unknown || c.Standing == syncrules.Awaited) {
				return Unknown
			}
		}
		return Blocked
	case syncrules.Wait:
		return Unknown
	case syncrules.None:
	}
	if facts.Local != nil && syncrules.IsCopy(facts.Local) {
		return InSync
	}
	return None
}
