// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"

	"github.com/roster-mesh/roster/cmd/internal/clidocs"
)

// TestReference: docs/cli.md says what the program has.
func TestReference(t *testing.T) {
	clidocs.Verify(t, "../../docs/cli.md", newApp(io.Discard, io.Discard))
}
