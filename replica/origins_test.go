// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"slices"
	"testing"
)

// The names of origins are sorted again when others are there.
func TestNamesOfOrigins(t *testing.T) {
	s := newState("self", Limits{})
	for _, id := range []string{"b", "c"} {
		s.origin(id)
	}
	before := s.ids()
	s.forget("b")
	s.origin("a")
	if got := s.ids(); !slices.Equal(got, []string{"a", "c"}) || !slices.Equal(before, []string{"b", "c"}) {
		t.Errorf("%v, and then %v", before, got)
	}
}
