// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"--timeout must be more than 0, and is 0s": {},
		`--skip: there is no check "feet"`:         {Timeout: time.Minute, Skip: []string{"api", "feet"}},
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := (&Options{Timeout: time.Minute, Skip: checkNames()}).Validate(); err != nil {
		t.Error(err)
	}
}
