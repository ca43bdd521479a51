// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"testing"

	"github.com/roster-mesh/roster/replica"
)

// TestVersions: only what is older than what was read is asked about, and only a present before that is a step back.
func TestVersions(t *testing.T) {
	const rule = replica.KindRule
	asked := 0
	at := func(version string) func(replica.Kind) (string, error) {
		return func(replica.Kind) (string, error) { asked++; return version, nil }
	}
	for name, c := range map[string]struct {
		see   func(*versions)
		now   string
		asked int
		back  bool
	}{
		"nothing":                {func(*versions) {}, "1", 0, false},
		"a first list":           {func(v *versions) { v.listed(rule, "9"); v.listed(rule, "5") }, "1", 0, false},
		"in order":               {func(v *versions) { v.listed(rule, "5"); v.saw(rule, "9"); v.sawGone(rule, "10") }, "1", 0, false},
		"of different kinds":     {func(v *versions) { v.saw(rule, "9"); v.saw(replica.KindFeature, "5") }, "1", 0, false},
		"a list after a gap":     {func(v *versions) { v.saw(rule, "9"); v.saw(rule, "5"); v.saw(rule, "9") }, "20", 1, false},
		"a deletion in a gap":    {func(v *versions) { v.saw(rule, "9"); v.sawGone(rule, "9") }, "9", 1, false},
		"a restore, an update":   {func(v *versions) { v.listed(rule, "9"); v.saw(rule, "5") }, "8", 1, true},
		"a restore, a deletion":  {func(v *versions) { v.listed(rule, "9"); v.sawGone(rule, "9") }, "8", 1, true},
		"longer numbers compare": {func(v *versions) { v.saw(rule, "10"); v.sawGone(rule, "10") }, "9", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var v versions
			c.see(&v)
			asked = 0
			back, err := v.wentBack(at(c.now))
			if back != c.back || asked != c.asked || err != nil {
				t.Errorf("went back %t after %d questions: %v", back, asked, err)
			}
		})
	}
	var v versions
	v.saw(rule, "9")
	v.sawGone(rule, "9")
	gone := errors.New("no answer")
	if _, err := v.wentBack(func(replica.Kind) (string, error) { return "", gone }); !errors.Is(err, gone) {
		t.Errorf("without an answer: %v", err)
	}
	if back, err := v.wentBack(at("8")); !back || err != nil {
		t.Errorf("the doubt did not outlive the missing answer: %v", err)
	}
	if v.accept(); v.highest != nil {
		t.Error("what was accepted is still compared with what was before")
	}
}
