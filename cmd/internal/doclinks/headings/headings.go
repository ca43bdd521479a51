// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package headings names the headings of Markdown documents as GitHub does, so that a link with an anchor leads to the same place
// there and on the site.
package headings

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	linked  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{M}\p{N}_\- ]`)
)

// Name returns the anchor of a heading: its text in lower case, without punctuation, with hyphens for spaces, and with a number where
// a heading before it has that name. It is added to taken, the names of the document so far.
func Name(title string, taken map[string]bool) string {
	title = linked.ReplaceAllString(title, "$1")
	name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	for again, base := 1, name; taken[name]; again++ {
		name = fmt.Sprintf("%s-%d", base, again)
	}
	taken[name] = true
	return name
}
