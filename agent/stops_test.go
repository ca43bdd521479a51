// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// unwind stops in reverse order, goes on after an error, and stops everything once.
func TestStops(t *testing.T) {
	var s stops
	var ended []string
	broken := errors.New("broken")
	s.push("a", func() error { ended = append(ended, "a"); return nil })
	s.push("b", func() error { ended = append(ended, "b"); return broken })
	s.push("c", func() error { ended = append(ended, "c"); return nil })
	if err := s.unwind(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("it ends with %v", err)
	}
	if err := s.unwind(); err != nil || !slices.Equal(ended, []string{"c", "b", "a"}) {
		t.Errorf("ended %v, %v", ended, err)
	}
}
