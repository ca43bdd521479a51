// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package unconfirmed

import (
	"slices"
	"strings"
	"testing"
)

// TestParse: what the condition says is what a program reads.
func TestParse(t *testing.T) {
	var want []Removal
	message := "removals by other members are held, and end nothing (removals: 3; who ordered them: 1): look at them with agentctl removals list. "
	for i, state := range []string{Held, Disputed, ByEdge, InEffect} {
		r := Removal{"prod-" + string(rune('a'+i)), "id", strings.Repeat("0a", 16), "edge", "by", strings.Repeat("b1", 16), state}
		want = append(want, r)
		message += r.Line() + "; "
	}
	if got := Parse(message); !slices.Equal(got, want) {
		t.Errorf("%q is read as %v", message, got)
	}
}
