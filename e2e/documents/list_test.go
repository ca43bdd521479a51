// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestEveryCommandIsRun: list.go has each command of each document, and nothing else; and each test that it names is there, and ends
// with a look at whether it has typed them all.
func TestEveryCommandIsRun(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, d := range All() {
		listed[d.Path] = true
		for _, problem := range check(d, all(t, d.Path)) {
			t.Errorf("%s: %s", d.Path, problem)
		}
		for test := range d.Typed {
			if body := function(t, test); !strings.Contains(body, `.Untyped("`+test+`")`) {
				t.Errorf("%s is not there, or does not end with Untyped(%[1]q)", test)
			}
		}
		for command, reason := range d.Not {
			for _, test := range regexp.MustCompile(`[\w/]+\.Test\w+`).FindAllString(reason, -1) {
				if function(t, test) == "" {
					t.Errorf("%s: %s is not run because of %s, which is not there", d.Path, command, test)
				}
			}
		}
	}
	for _, path := range read(t) {
		if !listed[path] && len(all(t, path)) > 0 {
			t.Errorf("%s has commands, and list.go does not have it", path)
		}
	}
	if !slices.IsSortedFunc(All(), func(a, b Document) int { return cmp.Compare(a.Path, b.Path) }) {
		t.Error("list.go is not in the order of paths")
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
	all := slices.AppendSeq(slices.Clone(d.DryRun), maps.Keys(d.Not))
	for _, typed := range d.Typed {
		all = append(all, typed...)
	}
	return all
}

func TestCheck(t *testing.T) {
	t.Parallel()
	commands := []string{"a b", "a b --long", "d e", "d e f", "g", "make h"}
	d := Document{
		Typed:  map[string][]string{"x": {"a b", "a b --long", "d e", "d e f"}},
		DryRun: []string{"make h"}, Not: map[string]string{"g": "because"},
	}
	if problems := check(d, commands); problems != nil {
		t.Error(problems)
	}
	d = Document{Typed: map[string][]string{"x": {"a b", "d e"}, "y": {"d e", "gone"}}, DryRun: []string{"make"}}
	want := []string{
		"list.go has a command that the document does not have: gone",
		"list.go has one beginning for two commands: a b and a b --long",
		"list.go has one beginning for two commands: d e and d e f",
		"no test runs: g (have one take it from the text, and list it in e2e/documents/list.go)",
		"twice in list.go: d e",
	}
	if problems := check(d, commands); !slices.Equal(problems, want) {
		t.Errorf("%q", problems)
	}
}

// all are the commands of a document, in its order.
func all(t *testing.T, path string) (commands []string) {
	t.Helper()
	blocks, err := Blocks(filepath.Join(root, path), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		commands = append(commands, b.Commands...)
	}
	return commands
}

// read are the documents that people read, and that are not generated.
func read(t *testing.T) (paths []string) {
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
			if path != "docs/cli.md" && path != "docs/api.md" {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// function is the text of a test, FOLDER.TEST, or nothing where there is no such test.
func function(t *testing.T, test string) string {
	t.Helper()
	folder, name, _ := strings.Cut(path.Base(test), ".")
	files, err := filepath.Glob(filepath.Join(root, path.Dir(test), folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, body, found := strings.Cut(string(text), fmt.Sprintf("\nfunc %s(t *testing.T) {\n", name)); found {
			body, _, _ = strings.Cut(body, "\n}\n")
			return body
		}
	}
	return ""
}
