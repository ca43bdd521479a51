// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict is whether a rule copies from one cluster to another.
package verdict

import "github.com/roster-mesh/roster/syncrules"

// The verdicts.
const (
	Yes     = "yes"
	No      = "no"
	Held    = "held" // copies stay as they are
	Unknown = "unknown"
)

// Relation is what a verdict is to the decision about a copy.
func Relation(verdict string) syncrules.Relation {
	switch verdict {
	case Yes:
		return syncrules.Asks
	case No:
		return syncrules.Excludes
	case Held:
		return syncrules.Stopped
	}
	return syncrules.Unclear
}
