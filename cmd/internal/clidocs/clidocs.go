// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clidocs writes what docs/cli.md says of a program, from the definitions of its commands and flags. A test of each
// program compares; cmd/generate.sh has these tests write.
package clidocs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// Verify fails when the document says anything else of a program than its definitions. With UPDATE_GOLDEN set it writes.
func Verify(t *testing.T, document string, app *cli.App) {
	t.Helper()
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	begin := "<!-- " + app.Name + ": written by cmd/generate.sh -->\n"
	end := "<!-- end of " + app.Name + " -->\n"
	head, rest, found := bytes.Cut(data, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		t.Fatalf("%s has no %q and %q", document, begin, end)
	}
	want := string(head) + begin + "\n" + Reference(app) + end + string(tail)
	if want == string(data) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") == "" {
		t.Fatalf("%s does not say what %s has: run make generate", document, app.Name)
	}
	if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Reference is Markdown about a program: the flags that all of its commands have, then each command.
func Reference(app *cli.App) string {
	var w strings.Builder
	fmt.Fprintf(&w, "## %s\n\n", app.Name)
	if len(app.Flags) > 0 {
		w.WriteString("Every command has these flags, before or after its name, unless its own table says what one of them means there:\n\n")
		flags(&w, app.Flags, nil)
	}
	common := map[string]string{} // what each of them is for
	for _, f := range app.Flags {
		common[f.Names()[0]] = usage(f)
	}
	for _, c := range app.Commands {
		command(&w, app.Name, c, common)
	}
	return w.String()
}

// command writes a command and those below it.
func command(w *strings.Builder, parent string, c *cli.Command, common map[string]string) {
	if c.Hidden {
		return
	}
	name := parent + " " + c.Name
	fmt.Fprintf(w, "### %s\n\n%s.\n\n", name, sentence(c.Usage))
	if len(c.Subcommands) == 0 {
		line := name
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return !isCommon(f, common) }) {
			line += " [FLAGS]"
		}
		if c.ArgsUsage != "" {
			line += " " + c.ArgsUsage
		}
		fmt.Fprintf(w, "```text\n%s\n```\n\n", line)
	}
	if c.Description != "" {
		fmt.Fprintf(w, "```text\n%s\n```\n\n", strings.TrimSpace(c.Description))
	}
	flags(w, c.Flags, common)
	for _, sub := range c.Subcommands {
		command(w, name, sub, common)
	}
}

// isCommon says that a flag is one that every command has. A command may give its name another meaning.
func isCommon(f cli.Flag, common map[string]string) bool {
	text, found := common[f.Names()[0]]
	return found && text == usage(f)
}

func usage(f cli.Flag) string {
	if d, ok := f.(cli.DocGenerationFlag); ok {
		return d.GetUsage()
	}
	return ""
}

// flags writes a table of those that are not common.
func flags(w *strings.Builder, all []cli.Flag, common map[string]string) {
	header := "| flag | default | |\n|---|---|---|\n"
	for _, f := range all {
		d, ok := f.(cli.DocGenerationFlag)
		if visible, v := f.(cli.VisibleFlag); !ok || v && !visible.IsVisible() || isCommon(f, common) {
			continue
		}
		placeholder, text := unquote(d.GetUsage())
		names := make([]string, 0, len(f.Names()))
		for _, name := range f.Names() {
			names = append(names, strings.Repeat("-", min(len(name), 2))+name)
		}
		if d.TakesValue() {
			names[0] += " " + placeholder
		}
		fmt.Fprintf(w, "%s| `%s` | %s | %s |\n", header, strings.Join(names, "`, `"), standard(d), cell(text))
		header = ""
	}
	if header == "" {
		w.WriteString("\n")
	}
}

// standard is the default of a flag; empty where it says nothing.
func standard(d cli.DocGenerationFlag) string {
	text := strings.Trim(d.GetDefaultText(), `"`)
	if text == "" || text == "false" {
		return ""
	}
	return "`" + text + "`"
}

// unquote takes the placeholder of a flag's value out of its usage, as the flag library does for --help.
func unquote(usage string) (placeholder, rest string) {
	before, quoted, found := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(quoted, "`")
	if !found || !closed {
		return "VALUE", usage
	}
	return name, before + name + after
}

// cell is a text in a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

func sentence(usage string) string { return cell(strings.ToUpper(usage[:1]) + usage[1:]) }
