// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"":                           {Names: []string{"alpha"}},
		"give names or -l, not both": {Names: []string{"alpha"}, Selector: "a=b"},
		`-l "a in" is no selector: unable to parse requirement: found '' expected: '('`: {Selector: "a in"},
	} {
		err := o.Validate()
		if want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
