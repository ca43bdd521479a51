// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Spans are what stands between backticks in the sentences and tables of a document, without the backticks. A span may go on in the
// next line.
func Spans(path string) (all []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fenced := false
	var prose strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch fence := strings.HasPrefix(line, "```"); {
		case fence:
			fenced = !fenced
			prose.WriteString("\n")
		case fenced:
		case line == "" || strings.HasPrefix(line, "|"): // a span does not leave its paragraph, or its row
			prose.WriteString("\n" + strings.ReplaceAll(line, `\|`, "|"))
		default:
			prose.WriteString(" " + line)
		}
	}
	for paragraph := range strings.Lines(prose.String()) {
		parts := strings.Split(paragraph, "`")
		if len(parts)%2 == 0 {
			return nil, fmt.Errorf("%s: nothing closes a backtick of %q", filepath.Base(path), strings.TrimSpace(paragraph))
		}
		for i := 1; i < len(parts); i += 2 {
			all = append(all, parts[i])
		}
	}
	return all, nil
}

// Words are those of a command as a shell reads it, up to where its output goes elsewhere. Within quotes is one word.
func Words(command string) (all []string) {
	quote, word, within := rune(0), "", false
	for _, r := range command + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, within = r, true
		case quote == 0 && strings.ContainsRune("|<>;&)", r):
			return all
		case quote == 0 && r == ' ':
			if word != "" || within {
				all = append(all, word)
			}
			word, within = "", false
		default:
			word += string(r)
		}
	}
	return all
}
