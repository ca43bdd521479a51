// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/accept"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/approve"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/bundle"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirm"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/credentials"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/export"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/group"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/importing"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/join"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/leave"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/orphans"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/removals"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/status"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/verify"
	versioncmd "github.com/roster-mesh/roster/cmd/agentctl/internal/version"
)

// newApp is the table of commands. Each call gives one with flags of its own.
func newApp(stdout, stderr io.Writer) *urfave.App {
	g := cli.NewGlobals()
	build := versioncmd.Build{Version: version, Commit: commit, Date: date}
	app := &urfave.App{
		Name:                 "agentctl",
		Usage:                "look at a group of clusters and join clusters to it",
		HideVersion:          true,
		EnableBashCompletion: true,
		Writer:               stdout,
		ErrWriter:            stderr,
		Flags:                g.Flags(),
		OnUsageError:         cli.OnUsageError,
		// run prints the one line and chooses the exit code.
		ExitErrHandler: func(*urfave.Context, error) {},
		// Reached only when no command of the given name exists.
		Action: func(c *urfave.Context) error {
			if c.Args().Present() {
				return cli.Usagef("unknown command %q; `agentctl help` lists the commands", c.Args().First())
			}
			return urfave.ShowAppHelp(c)
		},
		Commands: []*urfave.Command{
			join.Command(g),
			leave.Command(g),
			leave.RemoveCommand(g),
			removals.Command(g),
			approve.Command(g),
			accept.Command(g),
			accept.DisableCommand(g),
			accept.EnableCommand(g),
			status.MembersCommand(g),
			status.ClustersCommand(g),
			status.Command(g),
			doctor.Command(g),
			bundle.Command(g, bundleUses(build)),
			verify.Command(g),
			export.Command(g),
			export.KubeconfigCommand(g),
			export.CredentialCommand(g),
			importing.Command(g),
			hosted.InitCommand(g, version),
			hosted.DeleteCommand(g),
			group.Command(g),
			credentials.Command(g),
			confirm.GuardCommand(g),
			confirm.RestoreCommand(g),
			orphans.Command(g),
			rules.Command(g),
			ui.Command(g, pageUses()),
			versioncmd.Command(g, build),
			completionCommand(),
		},
	}
	for _, c := range app.Commands {
		g.AddTo(c)
	}
	return app
}
