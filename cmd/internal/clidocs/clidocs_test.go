// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clidocs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// Flags of all commands are written once, and again where one means something else, hidden ones not at all; commands below others have the whole name.
func TestReference(t *testing.T) {
	t.Parallel()
	common := &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: table|json"}
	app := &cli.App{Name: "tool", Flags: []cli.Flag{common}, Commands: []*cli.Command{
		{Name: "hide", Usage: "never seen", Hidden: true},
		{Name: "group", Usage: "commands about groups", Flags: []cli.Flag{common}, Subcommands: []*cli.Command{{
			Name: "make", Usage: "make one", ArgsUsage: "NAME", Description: "\nAt once.\n", Flags: []cli.Flag{
				common,
				&cli.BoolFlag{Name: "dry-run", Usage: "write nothing"},
				&cli.BoolFlag{Name: "wait", Value: true, Usage: "until <it> is there"},
				&cli.IntFlag{Name: "size", Value: 3, Usage: "how many"},
				&cli.StringFlag{Name: "secret", Hidden: true},
			},
		}}},
		{Name: "list", Usage: "list all", Flags: []cli.Flag{common}},
		{Name: "save", Usage: "save all", Flags: []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` to write"}}},
	}}
	want := "## tool\n\nEvery command has these flags, before or after its name, unless its own table says what one of them means there:\n\n" +
		"| flag | default | |\n|---|---|---|\n| `--output FORMAT`, `-o` | `table` | FORMAT: table\\|json |\n\n" +
		"### tool group\n\nCommands about groups.\n\n" +
		"### tool group make\n\nMake one.\n\n```text\ntool group make [FLAGS] NAME\n```\n\n```text\nAt once.\n```\n\n" +
		"| flag | default | |\n|---|---|---|\n" +
		"| `--dry-run` |  | write nothing |\n| `--wait` | `true` | until &lt;it> is there |\n| `--size VALUE` | `3` | how many |\n\n" +
		"### tool list\n\nList all.\n\n```text\ntool list\n```\n\n" +
		"### tool save\n\nSave all.\n\n```text\ntool save [FLAGS]\n```\n\n| flag | default | |\n|---|---|---|\n| `--output FILE`, `-o` |  | FILE to write |\n\n"
	if diff := cmp.Diff(want, Reference(app)); diff != "" {
		t.Error(diff)
	}
}
