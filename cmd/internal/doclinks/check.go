// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/roster-mesh/roster/cmd/internal/doclinks/headings"
)

// guide is the document whose paths in backticks are checked.
const guide = "docs/development.md"

// tree is a repository.
type tree struct {
	files   fs.FS
	paths   map[string]bool            // of files and folders
	anchors map[string]map[string]bool // of Markdown documents, by path
	tests   map[string]bool            // names of the tests
}

// check returns what does not lead anywhere, in the order of the files.
func check(files fs.FS) ([]string, error) {
	t := &tree{files: files, paths: map[string]bool{}, anchors: map[string]map[string]bool{}, tests: map[string]bool{}}
	texts, err := t.read()
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for i, line := range strings.Split(texts[name], "\n") {
			if strings.HasSuffix(name, "_test.go") {
				break
			}
			for _, target := range named(line) {
				if why := t.dead(target); why != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", name, i+1, target, why))
				}
			}
		}
		if path.Ext(name) == ".md" {
			problems = append(problems, t.document(name, texts[name])...)
		}
	}
	return problems, nil
}

// read takes in what the repository has, and returns the files that are text.
func (t *tree) read() (texts map[string]string, err error) {
	texts = map[string]string{}
	return texts, fs.WalkDir(t.files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && built(name):
			return fs.SkipDir
		}
		t.paths[name] = true
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(t.files, name)
		if err != nil {
			return err
		}
		if text := string(data); utf8.ValidString(text) {
			texts[name] = text
		}
		if path.Ext(name) == ".md" {
			t.anchors[name] = anchors(string(data))
		}
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range test.FindAllStringSubmatch(string(data), -1) {
				t.tests[m[1]] = true
			}
		}
		return nil
	})
}

// document returns what does not lead anywhere in a Markdown document.
func (t *tree) document(name, text string) (problems []string) {
	for line, text := range prose(text) {
		for _, target := range links(text) {
			if why := t.dead(resolve(name, target)); why != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", name, line, target, why))
			}
		}
		for _, m := range testNamed.FindAllStringSubmatch(text, -1) {
			if !t.tests[m[1]] {
				problems = append(problems, fmt.Sprintf("%s:%d: `%s`: there is no such test", name, line, m[1]))
			}
		}
		if name != guide {
			continue
		}
		for _, target := range ticked(text) {
			if !t.has(target) {
				problems = append(problems, fmt.Sprintf("%s:%d: `%s`: there is no such path", name, line, target))
			}
		}
	}
	return problems
}

// built says whether a folder is no part of the repository.
func built(name string) bool {
	return slices.Contains([]string{".git", "bin", "dist", "e2e/testbed/bin", "e2e/pods/bin"}, name)
}

// dead says why a target, PATH#ANCHOR from the root of the repository, leads nowhere; empty when it does not.
func (t *tree) dead(target string) string {
	name, anchor, _ := strings.Cut(target, "#")
	switch {
	case !t.paths[name]:
		return "there is no such file"
	case anchor != "" && !t.anchors[name][anchor]:
		return "there is no such heading"
	}
	return ""
}

// resolve makes a link of a document one from the root of the repository.
func resolve(document, target string) string {
	name, anchor, _ := strings.Cut(target, "#")
	if text, err := url.PathUnescape(name); err == nil {
		name = text
	}
	switch {
	case name == "":
		name = document
	case strings.HasPrefix(name, "/"):
		name = path.Clean(name[1:])
	default:
		name = path.Join(path.Dir(document), name)
	}
	if anchor != "" {
		name += "#" + anchor
	}
	return name
}

var (
	heading   = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$`)
	explicit  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	fence     = regexp.MustCompile("^ *(```|~~~)")
	code      = regexp.MustCompile("`[^`]*`")
	inline    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	reference = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?`)
	elsewhere = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	test      = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testNamed = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)(?:/[^`]*)?`")
	document  = regexp.MustCompile(`(?:https://github\.com/roster-mesh/roster/(?:blob|tree)/[^/\s]+/|(?:^|[^\w/.-]))((?:docs|charts)/[\w./-]+\.md(?:#[\w-]+)?)`)
)

// prose is the lines of a document, by their numbers from 1, that are in no fenced block.
func prose(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			if fence.MatchString(line) {
				fenced = !fenced
			} else if !fenced && !yield(i+1, line) {
				return
			}
		}
	}
}

// anchors are what a link to a document may name: its headings, and what it names itself.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, line := range prose(text) {
		for _, m := range explicit.FindAllStringSubmatch(line, -1) {
			out[m[1]] = true
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			headings.Name(m[1], out)
		}
	}
	return out
}

// links are the targets of a line's links within the repository.
func links(line string) []string {
	var out []string
	line = code.ReplaceAllString(line, "``")
	for _, m := range append(inline.FindAllStringSubmatch(line, -1), reference.FindAllStringSubmatch(line, -1)...) {
		if !elsewhere.MatchString(m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// named are the documents that a line of any file names from the root of the repository.
func named(line string) []string {
	var out []string
	for _, m := range document.FindAllStringSubmatch(line, -1) {
		out = append(out, m[1])
	}
	return out
}
