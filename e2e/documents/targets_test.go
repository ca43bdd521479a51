// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTargets: the Makefile has the targets and variables of each make in a sentence or a table.
func TestTargets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range read(t) {
		spans, err := Spans(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range spans {
			if command, is := strings.CutPrefix(span, "make "); is {
				found++
				if err := makes(string(text), Words(command)); err != nil {
					t.Errorf("%s: `%s`: %v", path, span, err)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d", found)
	}
}

// TestGoRuns: the programs of each go run in a sentence or a table are there, and have the flags.
func TestGoRuns(t *testing.T) {
	t.Parallel()
	found := 0
	for _, path := range read(t) {
		spans, err := Spans(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range spans {
			if _, command, is := strings.Cut(span, "go run ./"); is {
				found++
				if err := goRuns(Words(command)); err != nil {
					t.Errorf("%s: `%s`: %v", path, span, err)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d", found)
	}
}

// goRuns looks for flags in the source of a program.
func goRuns(words []string) (err error) {
	var source strings.Builder
	files, _ := filepath.Glob(filepath.Join(root, words[0], "*.go")) // the pattern is fine
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source.Write(text)
	}
	if !strings.Contains(source.String(), "\nfunc main() {") {
		return fmt.Errorf("no program %s", words[0])
	}
	for _, word := range words[1:] {
		name, is := strings.CutPrefix(word, "-")
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if is && !regexp.MustCompile(`flags?\.\w+\((&\w+, )?"`+regexp.QuoteMeta(name)+`",`).MatchString(source.String()) {
			err = errors.Join(err, fmt.Errorf("no flag %s", word))
		}
	}
	return err
}

func TestGoRunsOfOthers(t *testing.T) {
	t.Parallel()
	if err := goRuns(Words("e2e/bench --clusters 2 -only=bulk --quick")); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"e2e/bench --cluster 2", "e2e/bench -onl=bulk", "e2e/documents", "e2e/nothing"} {
		if goRuns(Words(command)) == nil {
			t.Errorf("it takes %s", command)
		}
	}
}

func makes(makefile string, words []string) (err error) {
	for _, word := range words {
		if name, _, set := strings.Cut(word, "="); set {
			if !strings.Contains(makefile, "$("+name+")") {
				err = errors.Join(err, fmt.Errorf("nothing uses %s", name))
			}
		} else if !slices.Contains(targets(makefile), word) {
			err = errors.Join(err, fmt.Errorf("no target %s", word))
		}
	}
	return err
}

var target = regexp.MustCompile(`(?m)^([a-z0-9-]+( [a-z0-9-]+)*):( |$)`)

// targets are those that people name: without files and patterns.
func targets(makefile string) (all []string) {
	for _, match := range target.FindAllStringSubmatch(makefile, -1) {
		all = append(all, strings.Fields(match[1])...)
	}
	return all
}

func TestMakes(t *testing.T) {
	t.Parallel()
	const makefile = "one: two ## say $(THREE)\n\techo\nfour five:\n\nsix: export SEVEN := 8\nnine := ten\n"
	if err := makes(makefile, []string{"one", "four", "five", "six", "THREE=x y"}); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"two", "SEVEN=8", "nine", "echo"} {
		if makes(makefile, []string{word}) == nil {
			t.Errorf("it takes %s", word)
		}
	}
}
