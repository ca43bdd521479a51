// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"rules explain needs a rule, a kind and a name, or -f FILE": {},
		`rules explain takes either -f or "web", not both`:          {Files: []string{"f"}, Subject: []string{"web"}},
		"--from is about the objects of files; give -f":             {From: "beta", Subject: []string{"web"}},
		"--limit must not be negative, and is -1":                   {Limit: -1, Subject: []string{"web"}},
		`"/x" is not KIND/NAME`:                                     {Subject: []string{"/x"}},
	} {
		if err := o.Validate(); err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, args := range [][]string{{"web"}, {"secret", "web"}, {"secret/web"}} {
		if err := (&Options{Subject: args}).Validate(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
