// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Block is a fenced block of a document, without the indentation that it has as a part of a list.
type Block struct {
	Language, Text string

	// Commands are what a person types: the lines of a block of kind sh, and those behind a $ of one of kind console. Lines that go
	// on with the next one are joined, and comments are left out.
	Commands []string

	heading string // of the second level
}

// Blocks reads the fenced blocks of a document that stand below a heading of the second level, or all of them for "". What a reader
// of commands could overlook is an error: a fence of another kind, one that nothing closes, a command that ends nowhere.
func Blocks(path, heading string) ([]Block, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if heading == "" {
		return all, nil
	}
	below := slices.DeleteFunc(all, func(b Block) bool { return b.heading != heading })
	if len(below) == 0 {
		return nil, fmt.Errorf("%s has no blocks below a heading %q", filepath.Base(path), heading)
	}
	return below, nil
}

func parse(document string) (all []Block, err error) {
	var open *Block
	heading, indent, number := "", "", 0
	for line := range strings.Lines(document) {
		number++
		text := strings.TrimSpace(line)
		language, fence := strings.CutPrefix(text, "```")
		switch {
		case open != nil && text == "```":
			if open.Commands, err = commands(open.Language, open.Text); err != nil {
				return nil, fmt.Errorf("the block that ends in line %d: %w", number, err)
			}
			all, open = append(all, *open), nil
		case open != nil && fence:
			return nil, fmt.Errorf("line %d: a block begins in another one", number)
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent)
		case strings.HasPrefix(text, "~~~"), fence && !slices.Contains([]string{"sh", "console", "text", "yaml", ""}, language):
			return nil, fmt.Errorf("line %d: blocks begin with ```sh, ```console, ```text or ```yaml, not with %s", number, text)
		case fence:
			open, indent = &Block{Language: language, heading: heading}, line[:strings.Index(line, "`")]
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(text, "## ")
		}
	}
	if open != nil {
		return nil, fmt.Errorf("nothing closes the last block, which is below %q", heading)
	}
	return all, nil
}

// hidden is a command in a block that says not what it holds, such as a drawing.
var hidden = regexp.MustCompile(`(?m)^ *(\$|agent|agentctl|git|helm|kubectl|make) .*`)

func commands(language, text string) (all []string, err error) {
	switch language {
	case "sh", "console":
	case "":
		if line := hidden.FindString(text); line != "" {
			return nil, fmt.Errorf("is this a command, in a block of no kind: %s", line)
		}
		return nil, nil
	default:
		return nil, nil
	}
	whole := ""
	for line := range strings.Lines(text) {
		line, typed := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if typed != (language == "console") {
			if typed {
				return nil, fmt.Errorf("it begins with a $ in a block of kind sh: %s", line)
			}
			continue
		}
		line, ends := withoutComment(line)
		line, more := strings.CutSuffix(line, `\`)
		whole += line
		switch {
		case !ends, !more && goesOn(line), more && typed:
			return nil, fmt.Errorf("where does this command end: %s", line)
		case !more && whole != "":
			all, whole = append(all, whole), ""
		}
	}
	if whole != "" {
		return nil, fmt.Errorf("nothing follows on this command: %s", whole)
	}
	return all, nil
}

// goesOn: a shell would read the next line, too.
func goesOn(line string) bool {
	return strings.HasSuffix(line, "|") || strings.HasSuffix(line, "&&") || strings.Contains(line, "<<")
}

// withoutComment ends a line where a comment begins, which a quoted # does not begin. A line whose quote goes on does not end.
func withoutComment(line string) (command string, ends bool) {
	quote := rune(0)
	before := ' '
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == '#' && before == ' ':
			return strings.TrimSpace(line[:i]), true
		}
		before = r
	}
	return line, quote == 0
}
