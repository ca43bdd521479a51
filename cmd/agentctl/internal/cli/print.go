// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Output is where a command prints, and in which form.
type Output struct {
	Stdout io.Writer // the result; for people also the progress
	Stderr io.Writer // remarks; the progress when Stdout has a document
	Format string    // table, wide, name, json, yaml or jsonpath, or one that the command has of its own

	template *jsonpath.JSONPath // of the format jsonpath
}

// The formats that print something else than a document or the one table.
const (
	formatTable    = "table"
	formatWide     = "wide"
	formatName     = "name"
	formatJSONPath = "jsonpath"
)

// ForPeople tells that no document is printed, but text that a person reads.
func (o *Output) ForPeople() bool { return o.Format == formatTable || o.Wide() }

// Wide tells that a person wants to see more than fits a line.
func (o *Output) Wide() bool { return o.Format == formatWide }

// Names prints names as kubectl does, where these are asked for. It reports false where they are not.
func (o *Output) Names(resource string, names []string) bool {
	if o.Format != formatName {
		return false
	}
	for _, name := range names {
		fmt.Fprintln(Printable{o.Stdout}, resource+"/"+name)
	}
	return true
}

// Result writes what came of a command as a document, if one is asked for: a person has been told by the progress.
func (o *Output) Result(v any) error {
	if o.ForPeople() {
		return nil
	}
	return o.Document(v)
}

// Document writes v as JSON, as YAML, or what a template takes out of it.
func (o *Output) Document(v any) error {
	var data []byte
	var err error
	switch o.Format {
	case "json":
		if data, err = json.MarshalIndent(v, "", "  "); err == nil {
			data = append(escaped(data, inJSON), '\n')
		}
	case formatJSONPath:
		return o.fillIn(v)
	default:
		data, err = YAML(v)
	}
	if err != nil {
		return fmt.Errorf("print as %s: %w", o.Format, err)
	}
	_, err = o.Stdout.Write(data)
	return err
}

// fillIn prints what the template takes out of v. A key that is missing is empty, as with kubectl.
func (o *Output) fillIn(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	if err := o.template.Execute(Printable{o.Stdout}, plain); err != nil {
		return fmt.Errorf("jsonpath: %w", err)
	}
	_, err = fmt.Fprintln(o.Stdout)
	return err
}

// asTemplate reads a template as kubectl does; the braces may be left out.
func asTemplate(text string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(text, "{") {
		text = "{" + text + "}"
	}
	t := jsonpath.New("-o").AllowMissingKeys(true)
	if err := t.Parse(text); err != nil {
		return nil, Usagef("-o jsonpath: %s", OneLine(err.Error()))
	}
	return t, nil
}

// YAML is v as YAML. What could steer a terminal is escaped, which takes JSON's form of it: YAML itself lets it through.
func YAML(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if bytes.IndexFunc(data, steers) < 0 {
		return yaml.JSONToYAML(data)
	}
	return append(escaped(data, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) }), '\n'), nil
}

// JSON is v as one line of JSON, in which nothing steers a terminal.
func JSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(escaped(data, inJSON), '\n'), err
}

// inJSON is a rune as JSON escapes it.
func inJSON(r rune) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(&out, `\u%04x`, unit)
	}
	return out.String()
}

// escaped is JSON in which all is escaped that is not printable: it can only be within strings.
func escaped(data []byte, as func(rune) string) []byte {
	if bytes.IndexFunc(data, steers) < 0 {
		return data
	}
	var out []byte
	for _, r := range string(data) {
		if steers(r) {
			out = append(out, as(r)...)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// steers says that a rune is no text: control characters and those that turn the direction of the text, among others.
func steers(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// Warn prints what a person should know before a command goes on.
func (o *Output) Warn(text string) { fmt.Fprintln(Printable{o.Stderr}, "warning: "+text) }

// Progress prints lines with the time since it was made.
type Progress func(format string, args ...any)

// Progress starts the clock. The lines go to standard output unless that has a document.
func (o *Output) Progress() Progress {
	w, start := o.Stdout, time.Now()
	if !o.ForPeople() {
		w = o.Stderr
	}
	w = Printable{w}
	var mu sync.Mutex // several may be at work
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%5.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}

// PrintTable writes columns that line up; an empty cell is a dash, so that a line always has as many
// words as columns until the last one. What a cell holds cannot steer a terminal.
func PrintTable(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(Printable{w}, 0, 0, 3, ' ', 0)
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
		if steers(r) {
			return '?'
		}
		return r
	}, string(text))
	if _, err := io.WriteString(p.To, clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
