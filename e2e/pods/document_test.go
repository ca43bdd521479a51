// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// block is a fenced block of a document.
type block struct {
	language, text string
}

// blocks reads the fenced blocks of a document that stand below a heading, without their common indentation.
func blocks(path, heading string) ([]block, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut("\n"+string(data), "\n## "+heading+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no heading %q", filepath.Base(path), heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var all []block
	var open *block
	indent := ""
	for line := range strings.Lines(section) {
		trimmed := strings.TrimLeft(line, " ")
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open, indent = &block{language: language}, line[:len(line)-len(trimmed)]
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent)
		}
	}
	return all, nil
}

// find returns the first block of a language that holds a text. That there is none means that the document has changed.
func find(all []block, language, text string) (string, error) {
	for _, b := range all {
		if b.language == language && strings.Contains(b.text, text) {
			return b.text, nil
		}
	}
	return "", fmt.Errorf("the document has no %s block with %q: does a test of its commands have to change?", language, text)
}
