// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	west := clusters.Access{Context: "west"}
	for want, o := range map[string]Options{
		"": {Peer: west, Timeout: time.Minute},
		"join needs --peer-context, the context of the other cluster": {Timeout: time.Minute},
		"--timeout must be more than 0, and is 0s":                    {Peer: west},
		"--yes is of no use without --replace-key":                    {Peer: west, Timeout: time.Minute, Yes: true},
		"--replace-key and --dry-run do not go together: what would be swapped has the key that is not made yet": {
			Peer: west, Timeout: time.Minute, ReplaceKey: true, DryRun: true,
		},
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
