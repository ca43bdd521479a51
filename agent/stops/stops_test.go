// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Unwind stops in reverse order, goes on after an error, and stops everything once.
func TestStops(t *testing.T) {
	var s Stops
	var ended []string
	broken := errors.New("broken")
	s.Push("a", func() error { ended = append(ended, "a"); return nil })
	s.Push("b", func() error { ended = append(ended, "b"); return broken })
	s.Push("c", func() error { ended = append(ended, "c"); return nil })
	if err := s.Unwind(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("it ends with %v", err)
	}
	if err := s.Unwind(); err != nil || !slices.Equal(ended, []string{"c", "b", "a"}) {
		t.Errorf("ended %v, %v", ended, err)
	}
}
