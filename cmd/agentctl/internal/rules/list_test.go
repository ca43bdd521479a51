// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// One message per cause: a rule that is not Ready, and one whose last edit the agent has not looked at.
func TestAnswer(t *testing.T) {
	t.Parallel()
	for want, lists := range map[string][2][]string{
		"not Ready: a, b":                                 {{"a", "b"}, nil},
		"not looked at by the agent yet: c":               {nil, {"c"}},
		"not Ready: a; not looked at by the agent yet: c": {{"a"}, {"c"}},
	} {
		if err := answer(lists[0], lists[1]); err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitBlocked {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := answer(nil, nil); err != nil {
		t.Error(err)
	}
}
