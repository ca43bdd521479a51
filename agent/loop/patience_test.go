// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"slices"
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	t.Parallel()
	p, got := Patience{First: time.Second, Longest: 3 * time.Second}, []time.Duration(nil)
	for range 4 {
		got = append(got, p.Next())
	}
	p.Worked()
	if got = append(got, p.Next()); !slices.Equal(got, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second, time.Second}) {
		t.Errorf("waits: %v", got)
	}
}
