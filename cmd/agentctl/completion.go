// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// The scripts ask the program itself, so they never grow stale.
//
//go:embed completion
var completions embed.FS

func completionCommand() *urfave.Command {
	return &urfave.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell: bash, zsh or fish",
		ArgsUsage: "bash|zsh|fish",
		Description: `bash:  source <(agentctl completion bash)
zsh:   source <(agentctl completion zsh)
fish:  agentctl completion fish | source`,
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("completion needs one shell: bash, zsh or fish")
			}
			script, err := completionScript(c)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.App.Writer, script)
			return err
		},
	}
}

func completionScript(c *urfave.Context) (string, error) {
	switch shell := c.Args().First(); shell {
	case "bash", "zsh", "fish":
		data, err := completions.ReadFile("completion/agentctl." + shell)
		if err != nil || shell != "fish" {
			return string(data), err
		}
		// The flag library writes down commands and flags for fish; ours adds what it must ask for.
		static, err := c.App.ToFishCompletion()
		return static + string(data), err
	default:
		return "", cli.Usagef("no completion for shell %q; there is bash, zsh and fish", shell)
	}
}
