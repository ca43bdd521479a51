// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// module is how Go names the repository.
const module = "github.com/roster-mesh/roster/"

var (
	isPath = regexp.MustCompile(`^[\w.*{}][\w./*{},-]*$`)
	isFile = regexp.MustCompile(`^[\w.-]+\.(go|md|sh|ya?ml|json|txtar)$`)
	holder = regexp.MustCompile(`^[A-Z_]+(/|$)`)      // DIR/log is a path for the reader to fill in
	domain = regexp.MustCompile(`^\w[\w-]*\.[\w.]+/`) // k8s.io/api is another module
)

// ticked are the paths in a line's code spans: what has a slash or is named like a file, and in a command what begins like
// a path of this repository.
func ticked(line string) []string {
	var out []string
	for _, span := range code.FindAllString(line, -1) {
		words := strings.Fields(strings.Trim(span, "`"))
		for _, word := range words {
			word = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(word, "/..."), "/"), module)
			relative := strings.HasPrefix(word, "./")
			if word = path.Clean(word); word == "." || word == "..." || len(words) > 1 && !relative {
				continue
			}
			if isPath.MatchString(word) && !holder.MatchString(word) && !domain.MatchString(word) &&
				(strings.Contains(word, "/") || relative || isFile.MatchString(word)) {
				out = append(out, word)
			}
		}
	}
	return out
}

// has says whether a path is there: from the root, or as the end of one that a reader knows from the sentence. It may have
// wildcards and {this,that}; what a build makes counts as there.
func (t *tree) has(name string) bool {
	if before, rest, ok := strings.Cut(name, "{"); ok {
		choices, after, _ := strings.Cut(rest, "}")
		return !slices.ContainsFunc(strings.Split(choices, ","), func(choice string) bool { return !t.has(before + choice + after) })
	}
	for at := name; at != "."; at = path.Dir(at) {
		if built(at) {
			return true
		}
	}
	parts := strings.Count(name, "/") + 1
	for known := range t.paths {
		all := strings.Split(known, "/")
		if len(all) < parts {
			continue
		}
		if ok, err := path.Match(name, strings.Join(all[len(all)-parts:], "/")); ok && err == nil {
			return true
		}
	}
	return false
}
