// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Block is a fenced block of a document.
type Block struct {
	Language, Text string
}

// Blocks reads the fenced blocks of a document that stand below a heading of the second level, or all of them for "", without
// their common indentation.
func Blocks(path, heading string) ([]Block, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	section := string(data)
	if heading != "" {
		var found bool
		if _, section, found = strings.Cut("\n"+section, "\n## "+heading+"\n"); !found {
			return nil, fmt.Errorf("%s has no heading %q", filepath.Base(path), heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
	}
	var all []Block
	var open *Block
	indent := ""
	for line := range strings.Lines(section) {
		trimmed := strings.TrimLeft(line, " ")
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open, indent = &Block{Language: language}, line[:len(line)-len(trimmed)]
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent)
		}
	}
	return all, nil
}

// Find returns the first block of a language that holds a text. That there is none means that the document has changed.
func Find(all []Block, language, text string) (string, error) {
	for _, b := range all {
		if b.Language == language && strings.Contains(b.Text, text) {
			return b.Text, nil
		}
	}
	return "", fmt.Errorf("the document has no %s block with %q: does a test of its commands have to change?", language, text)
}

// Commands are what a person types of a block: the lines of a block of kind sh, and those behind a $ of one of kind console. Lines
// that go on with the next one are joined, and comments are left out.
func (b Block) Commands() (all []string) {
	whole := ""
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSpace(line)
		typed := b.Language == "sh"
		if b.Language == "console" {
			line, typed = strings.CutPrefix(line, "$ ")
		}
		line, more := strings.CutSuffix(withoutComment(line), "\\")
		if !typed || line == "" {
			continue
		}
		if whole += line; !more {
			all, whole = append(all, whole), ""
		}
	}
	return all
}

// withoutComment ends a line where a comment begins, which a quoted # does not begin.
func withoutComment(line string) string {
	quote := rune(0)
	before := ' '
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == '#' && before == ' ':
			return strings.TrimSpace(line[:i])
		}
		before = r
	}
	return line
}

// Command is the one command of a document that is, or else begins like, this.
func Command(path, begins string) (string, error) {
	all, err := Blocks(path, "")
	if err != nil {
		return "", err
	}
	var found string
	for _, b := range all {
		for _, command := range b.Commands() {
			switch {
			case command == begins:
				return command, nil
			case !strings.HasPrefix(command, begins) || command == found:
			case found != "":
				return "", fmt.Errorf("%s has several commands that begin with %q", filepath.Base(path), begins)
			default:
				found = command
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("%s has no command that begins with %q: does a test of its commands have to change?", filepath.Base(path), begins)
	}
	return found, nil
}
