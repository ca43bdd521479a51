// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// valuesTable is one row for each value that has a comment.
func valuesTable(data []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	if err := writeValues(&b, "", document.Content[0]); err != nil {
		return "", err
	}
	return b.String(), nil
}

// writeValues goes down a mapping as far as there are comments. A value without one is an error.
func writeValues(b *strings.Builder, path string, mapping *yaml.Node) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		if value.Kind == yaml.MappingNode && commented(value) {
			if err := writeValues(b, name, value); err != nil {
				return err
			}
			continue
		}
		meaning := comment(key)
		if meaning == "" {
			return fmt.Errorf("%s has no comment", name)
		}
		var plain any
		if err := value.Decode(&plain); err != nil {
			return err
		}
		standard, err := json.Marshal(plain)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", name, cell(string(standard)), cell(meaning))
	}
	return nil
}

// commented says whether a key in the mapping, at any depth, has a comment.
func commented(mapping *yaml.Node) bool {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.HeadComment != "" || value.Kind == yaml.MappingNode && commented(value) {
			return true
		}
	}
	return false
}

// comment is the text of the last paragraph of the comments above a key: what comes before is about the file.
func comment(key *yaml.Node) string {
	paragraphs := strings.Split(key.HeadComment, "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}
