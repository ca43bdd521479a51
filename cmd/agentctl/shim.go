// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

func printDocument(w io.Writer, format string, v any) error {
	return (&cli.Output{Stdout: w, Format: format}).Document(v)
}
