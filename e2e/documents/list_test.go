// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestEveryCommandIsRun: list.go has each command of each document, and nothing else; and each test that it names is there, and reads
// that document.
func TestEveryCommandIsRun(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, d := range All() {
		listed[d.Path] = true
		for _, problem := range check(d, commands(t, d.Path)) {
			t.Errorf("%s: %s", d.Path, problem)
		}
		for test := range d.Typed {
			if why := unread(t, test, d.Path); why != "" {
				t.Errorf("%s: %s %s", d.Path, test, why)
			}
		}
	}
	for _, path := range withCommands(t) {
		if !listed[path] {
			t.Errorf("%s has commands, and list.go does not have it", path)
		}
	}
}

// check compares the commands of a document with those that are listed.
func check(d Document, commands []string) (problems []string) {
	found := map[string]string{} // how a command begins → the command
	entries := map[string]bool{}
	for _, entry := range d.entries() {
		if entries[entry] {
			problems = append(problems, "twice in list.go: "+entry)
		}
		entries[entry] = true
	}
	for _, command := range commands {
		best := ""
		for entry := range entries {
			if strings.HasPrefix(command, entry) && len(entry) > len(best) {
				best = entry
			}
		}
		switch other := found[best]; {
		case best == "":
			problems = append(problems, "no test runs: "+command+" (have one take it from the text, and list it in e2e/documents/list.go)")
		case other != "" && other != command:
			problems = append(problems, "list.go has one beginning for two commands: "+other+" and "+command)
		}
		found[best] = command
	}
	for entry := range entries {
		if found[entry] == "" {
			problems = append(problems, "list.go has a command that the document does not have: "+entry)
		}
	}
	slices.Sort(problems)
	return problems
}

// entries are how all commands begin, those that are not run among them.
func (d Document) entries() []string {
	all := slices.Collect(maps.Keys(d.Not))
	for _, typed := range d.Typed {
		all = append(all, typed...)
	}
	return all
}

func TestCheck(t *testing.T) {
	t.Parallel()
	block := Block{"sh", "a b   # c\n\na b --long \\\n  'x # y' | \\\n  z\nd e\n# f\nd e f\n"}
	commands := append(block.Commands(), Block{"console", "$ g\nh\n"}.Commands()...)
	if want := []string{"a b", "a b --long 'x # y' | z", "d e", "d e f", "g"}; !slices.Equal(commands, want) {
		t.Fatalf("%q", commands)
	}
	d := Document{Typed: map[string][]string{"x": {"a b", "a b --long", "d e", "d e f"}}, Not: map[string]string{"g": "because"}}
	if problems := check(d, commands); problems != nil {
		t.Error(problems)
	}
	d = Document{Typed: map[string][]string{"x": {"a b", "d e"}, "y": {"d e", "gone"}}}
	want := []string{
		"list.go has a command that the document does not have: gone",
		"list.go has one beginning for two commands: a b and a b --long 'x # y' | z",
		"list.go has one beginning for two commands: d e and d e f",
		"no test runs: g (have one take it from the text, and list it in e2e/documents/list.go)",
		"twice in list.go: d e",
	}
	if problems := check(d, commands); !slices.Equal(problems, want) {
		t.Errorf("%q", problems)
	}
}

// commands are those of a document, in its order.
func commands(t *testing.T, path string) (all []string) {
	t.Helper()
	blocks, err := Blocks(filepath.Join(root, path), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		all = append(all, b.Commands()...)
	}
	return all
}

// withCommands are the documents that people read, and that are not generated, with commands.
func withCommands(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/examples/*.md", "charts/*/README.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || files == nil {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			path, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			if path != "docs/cli.md" && path != "docs/api.md" && len(commands(t, path)) > 0 {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// unread says why a test cannot take its commands from a document: it is not there, or no file of its package names the document in
// a string.
func unread(t *testing.T, test, path string) (why string) {
	t.Helper()
	folder, name := filepath.Dir(test), strings.TrimPrefix(filepath.Ext(test), ".")
	folder = filepath.Join(folder, strings.TrimSuffix(filepath.Base(test), filepath.Ext(test)))
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`"(\.\./)*` + regexp.QuoteMeta(path) + `"`)
	there, reads := false, folder == filepath.Join("e2e", "documents")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		there = there || strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
		reads = reads || names.Match(text)
	}
	switch {
	case !there:
		return "is not there"
	case !reads:
		return "does not read it"
	}
	return ""
}

// TestMake: make knows each target that a document names, with what that needs. It says what it would do, and does nothing.
func TestMake(t *testing.T) {
	t.Parallel()
	for _, d := range All() {
		for _, begins := range d.Typed[dryRun] {
			command, err := Command(filepath.Join(root, d.Path), begins)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.Replace(command, "make ", "make --dry-run ", 1))
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
				t.Errorf("%s: %s: %v\n%s", d.Path, command, err, out)
			}
		}
	}
}
