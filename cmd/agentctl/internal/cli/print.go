// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Output is where a command prints, and in which form.
type Output struct {
	Stdout io.Writer // the result; for people also the progress
	Stderr io.Writer // remarks; the progress when Stdout has a document
	Format string    // table, json or yaml
}

// ForPeople tells that no document is printed, but text that a person reads.
func (o *Output) ForPeople() bool { return o.Format == "table" }

// Document writes v as JSON or YAML.
func (o *Output) Document(v any) error {
	if o.Format == "json" {
		enc := json.NewEncoder(o.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	data, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as yaml: %w", err)
	}
	_, err = o.Stdout.Write(data)
	return err
}

// Progress prints lines with the time since it was made.
type Progress func(format string, args ...any)

// Progress starts the clock. The lines go to standard output unless that has a document.
func (o *Output) Progress() Progress {
	w, start := o.Stdout, time.Now()
	if !o.ForPeople() {
		w = o.Stderr
	}
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}

// PrintTable writes columns that line up; an empty cell is a dash, so that a line always has as many
// words as columns until the last one.
func PrintTable(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cell = OneLine(cell); cell == "" {
				cell = "-"
			}
			cells[i] = cell
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// Printable is a terminal that text of other clusters cannot steer: what is neither printable nor a line's end
// or a tab is a question mark.
type Printable struct{ To io.Writer }

func (p Printable) Write(text []byte) (int, error) {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(text))
	if _, err := io.WriteString(p.To, clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
