// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"regexp"
	"strings"
)

// OneLine is a text without line breaks and repeated spaces: what a user can read and grep.
func OneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// First is the first of some lines, and how many more there are.
func First(lines []string) string {
	if len(lines) > 1 {
		return fmt.Sprintf("%s (and %d more)", lines[0], len(lines)-1)
	}
	return strings.Join(lines, "")
}

// Brief lists at most five names.
func Brief(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

// Plural is a number of things: "1 rule", "2 rules".
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord makes a word safe to paste: names may come from other clusters.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
