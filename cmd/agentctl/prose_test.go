// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/e2e/documents"
)

// example is a command on a line of its own in what a command of the program says of itself.
var example = regexp.MustCompile(`(?m)^(?:  |\w+: +(?:source <\()?)(agentctl [^)\n]+)`)

// TestProse: the program takes each command that a sentence or a table of a document has, and each example of docs/cli.md: it has the
// commands, and they have the flags. Nothing is run. Commands in blocks are typed by the tests of e2e/documents.
func TestProse(t *testing.T) {
	found := map[string]int{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/examples/*.md", "charts/*/README.md"} {
		paths, err := filepath.Glob("../../" + pattern)
		if err != nil || paths == nil {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			commands, err := documents.Spans(path)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(path) == "cli.md" {
				commands = append(commands, examples(t, path)...)
			}
			for _, command := range commands {
				if words, is := strings.CutPrefix(command, "agentctl "); is {
					found[filepath.Base(path)]++
					if err := parse(documents.Words(words)); err != nil {
						t.Errorf("%s: `%s`: %v", path, command, err)
					}
				}
			}
		}
	}
	if found["groups.md"] < 10 || found["rules.md"] < 10 || found["cli.md"] < 10 {
		t.Errorf("%v", found)
	}
}

func examples(t *testing.T, path string) (all []string) {
	t.Helper()
	blocks, err := documents.Blocks(path, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		for _, match := range example.FindAllStringSubmatch(b.Text, -1) {
			all = append(all, match[1])
		}
	}
	return all
}

// parse has the program's table read the words.
func parse(words []string) error {
	app := newApp(io.Discard, io.Discard)
	disarm(app.Commands)
	return app.Run(cli.FlagsFirst(app, slices.Concat([]string{app.Name}, words)))
}

// disarm has no command do anything but those that only have others below them, which refuse what is none of these.
func disarm(commands []*urfave.Command) {
	for _, c := range commands {
		if len(c.Subcommands) == 0 {
			c.Action = func(*urfave.Context) error { return nil }
		}
		disarm(c.Subcommands)
	}
}

func TestParse(t *testing.T) {
	for command, want := range map[string]bool{
		"status --context A":                true,
		"--context A status":                true,
		"rules":                             true,
		"rules explain secret web-tls -n a": true,
		"join --context A --role edge":      true,
		"status --contest A":                false,
		"statuss":                           false,
		"rules explane":                     false,
		"status --fleet=perhaps":            false,
		"join --timeout soon":               false,
		"join --role":                       false,
	} {
		if err := parse(documents.Words(command)); (err == nil) != want {
			t.Errorf("agentctl %s: %v", command, err)
		}
	}
}
