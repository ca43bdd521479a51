// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	document := "# a\n```sh\na b   # c\n\na b --long \\\n  'x # y' | \\\n  z\n# f\n```\n## One\n1. x\n   ```console\n   $ g  # h\n   i\n   ```\n```text\n$ j \\\n```\n"
	blocks, err := parse(document)
	if err != nil || len(blocks) != 3 {
		t.Fatal(blocks, err)
	}
	if got, want := blocks[0].Commands, []string{"a b", "a b --long 'x # y' | z"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if b := blocks[1]; b.heading != "One" || b.Text != "$ g  # h\ni\n" || !slices.Equal(b.Commands, []string{"g"}) {
		t.Errorf("%+v", b)
	}
	if b := blocks[2]; b.Language != "text" || b.Commands != nil {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		"```bash\na\n```\n":            "line 1: blocks begin with",
		"```\na\n  make b\n```\n":      "is this a command, in a block of no kind:   make b",
		"~~~sh\na\n~~~\n":              "line 1: blocks begin with",
		"## A\n```sh\na\n":             "nothing closes the last block, which is below \"A\"",
		"```sh\na\n```sh\nb\n```\n":    "line 3: a block begins in another one",
		"```sh\na \\\n```\n":           "nothing follows on this command: a",
		"```sh\na |\n  b\n```\n":       "where does this command end: a |",
		"```sh\na &&\n  b\n```\n":      "where does this command end: a &&",
		"```sh\na <<EOF\nEOF\n```\n":   "where does this command end: a <<EOF",
		"```sh\na 'b\nc'\n```\n":       "where does this command end: a 'b",
		"```sh\n$ a\n```\n":            "it begins with a $ in a block of kind sh: a",
		"```console\n$ a \\\nb\n```\n": "the block that ends in line 4: where does this command end: a",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// written is a reader of a document of this text, docs/ui.md.
func written(t *testing.T, text string) *Reader {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, UI), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return NewReader(root)
}

func TestReader(t *testing.T) {
	t.Parallel()
	r := written(t, "## A\n```sh\na one\na one two\nb\nb\n```\n## B\n```text\nc one\n```\n```sh\nd one\nd two\n```\n")
	here := r.With("one", "1", "two", "2").With("one", "3")
	if lines, err := here.Lines(UI, "a one two", "b"); err != nil || lines != "a 3 2\nb" {
		t.Errorf("%q, %v", lines, err)
	}
	if block, err := r.Block(UI, "B", "text", "one"); err != nil || block != "c one\n" {
		t.Errorf("%q, %v", block, err)
	}
	if block, err := here.Block(UI, "B", "sh", "two"); err != nil || block != "d 3\nd 2\n" {
		t.Errorf("%q, %v", block, err)
	}
	for what, lines := range map[string]func() (string, error){
		`"two" has a word for this place`:          func() (string, error) { return here.Lines(UI, "a one") },
		"several commands that begin with \"a o\"": func() (string, error) { return r.Lines(UI, "a o") },
		"no command that begins with \"e\"":        func() (string, error) { return r.Lines(UI, "e") },
		"no sh block with \"a\"":                   func() (string, error) { return r.Block(UI, "B", "sh", "a") },
		"no blocks below a heading \"C\"":          func() (string, error) { return r.Block(UI, "C", "sh", "a") },
	} {
		if text, err := lines(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q, %v, not %s", text, err, what)
		}
	}
}

// Untyped is held against what list.go says of docs/ui.md, which is two commands for the scenes.
func TestUntyped(t *testing.T) {
	t.Parallel()
	r := written(t, "```sh\nagentctl ui\nagentctl ui --context x\n```\n")
	misses := func(texts ...string) {
		t.Helper()
		err := r.Untyped(scenes)
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), UI+": it did not type "+text+"\n") {
				t.Errorf("%v", err)
			}
		}
	}
	misses("agentctl ui", "agentctl ui --context x")
	if _, err := r.Lines(UI, "agentctl ui"); err != nil {
		t.Fatal(err)
	}
	misses("agentctl ui --context x")
	if err := r.Untyped(scenes); strings.Contains(err.Error(), "it did not type agentctl ui\n") {
		t.Error(err)
	}
	if err := r.Untyped("e2e.TestUnknown"); err == nil {
		t.Error("it knows a test that list.go does not have")
	}
}
