// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartdocs writes what documents say of the chart's values and rights, from values.yaml and its comments and
// from files/rights.yaml, between two marks in each document.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	chart "github.com/roster-mesh/roster/charts/agent"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: chartdocs ROOT")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(root string) error {
	values, err := os.ReadFile(filepath.Join(root, "charts/agent/values.yaml"))
	if err != nil {
		return err
	}
	table, err := valuesTable(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	if err := rewrite(filepath.Join(root, "charts/agent/README.md"), "values", table); err != nil {
		return err
	}
	rights, err := chart.DefaultRights()
	if err != nil {
		return err
	}
	return rewrite(filepath.Join(root, "docs/rbac.md"), "rights", rightsTable(rights))
}

// rewrite puts text between the marks of that name.
func rewrite(path, name, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin := "<!-- " + name + ": written by charts/agent/generate.sh -->\n"
	end := "<!-- end of " + name + " -->\n"
	head, rest, found := bytes.Cut(data, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s: no %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	out := string(head) + begin + "\n" + text + "\n" + end + string(tail)
	return os.WriteFile(path, []byte(out), 0o644)
}

// cell is a text in a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
