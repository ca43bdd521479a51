// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules is the command rules: the rules of one cluster with what its agent says of them. What needs files is in
// lint, what needs the whole group in explain.
package rules

import (
	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/lint"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "rules",
		Usage: "list, check, explain and pause the rules that say what is copied, and let one adopt what is here",
		Subcommands: []*urfave.Command{
			listCommand(g),
			lint.Command(g),
			explainCommand(g),
			pauseCommand(g),
			resumeCommand(g),
			adoptCommand(g),
		},
		// Reached only when no subcommand of the given name exists.
		Action: cli.OnlySubcommands,
	}
}
