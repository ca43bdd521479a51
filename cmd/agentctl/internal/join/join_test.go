// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	west := []clusters.Access{{Context: "west"}}
	for want, o := range map[string]Options{
		"": {Peers: west, Timeout: time.Minute},
		"join needs --peer-context, the context of the other cluster": {Timeout: time.Minute},
		"--timeout must be more than 0, and is 0s":                    {Peers: west},
		"--peer-context has an empty part":                            {Peers: append(west, clusters.Access{}), Timeout: time.Minute},
		"--replace-key goes with one --peer-context: a cluster joins one member under its new key, and the others hear of it": {
			Peers: append(west, west...), Timeout: time.Minute, ReplaceKey: true,
		},
		`--role "Edge" is not full or edge`:        {Peers: west, Timeout: time.Minute, Role: "Edge"},
		"--yes is of no use without --replace-key": {Peers: west, Timeout: time.Minute, Yes: true},
		"--replace-key and --dry-run do not go together: what would be swapped has the key that is not made yet": {
			Peers: west, Timeout: time.Minute, ReplaceKey: true, DryRun: true,
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

// What failed counts more than what was only late; what is missing of those is listed together.
func TestWorst(t *testing.T) {
	t.Parallel()
	failed := errors.New("refused")
	late := func(what string) error { return &cli.TimeoutError{Text: "late", Missing: []string{what}} }
	if err := worst([]error{nil, nil}); err != nil {
		t.Error(err)
	}
	if err := worst([]error{late("a"), failed, nil}); !errors.Is(err, failed) || cli.ExitCode(err) != cli.ExitFailed {
		t.Error(err)
	}
	err, ok := errors.AsType[*cli.TimeoutError](worst([]error{late("a"), nil, late("b")}))
	if !ok || !slices.Equal(err.Missing, []string{"a", "b"}) {
		t.Error(err)
	}
}
