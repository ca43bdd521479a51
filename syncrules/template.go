// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Limits of templates: of their text, for the parser, and of their output.
const (
	maxActions = 1024
	maxParens  = 4096
	maxOutput  = 1 << 20
)

// errMissing is returned when a template prints a value that does not exist. text/template would print "<no value>", which
// nobody wants in a copy.
var errMissing = errors.New("there is no value; add | default \"...\" where it may be missing")

// program is a compiled template. It is immutable: each execution binds the functions to a meter of its own.
type program struct {
	trees map[string]*parse.Tree
	calls map[string]function // the functions that it calls, by name
	reading
	mutates bool // it may change its data
}

// programName is the name of the main template. No other template in it can have the same name.
const programName = "value"

// template parses a template, and rewrites it so that all that it does is spent: see rewriter.
func (c *compiler) template(text string) (*program, []error) {
	if strings.Count(text, "{{") > maxActions {
		return nil, []error{fmt.Errorf("must have at most %d {{ }}", maxActions)}
	}
	if strings.Count(text, "(") > maxParens {
		return nil, []error{fmt.Errorf("must have at most %d parentheses where it has {{ }}", maxParens)}
	}
	if c.names == nil {
		c.known, c.refused, c.names = functions(), refusedFunctions(), map[string]any{}
		for _, name := range slices.Concat(builtinFunctions(), slices.Collect(maps.Keys(c.known)), slices.Collect(maps.Keys(c.refused))) {
			c.names[name] = struct{}{} // also those refused: the parser would report only the first, and not why
		}
	}
	trees, err := parse.Parse(programName, text, "", "", c.names)
	if err != nil {
		return nil, []error{errors.New(strings.TrimPrefix(err.Error(), "template: "+programName+":"))}
	}
	p := &program{trees: trees, calls: map[string]function{}}
	var errs []error
	mutators := mutatingFunctions()
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		tree := trees[name]
		if tree.Root == nil {
			continue
		}
		w := rewriter{used: map[string]bool{}}
		w.template(tree.Root, name == programName)
		p.reading = p.or(w.reading)
		for _, call := range slices.Sorted(maps.Keys(w.used)) {
			if why, ok := c.refused[call]; ok {
				errs = append(errs, fmt.Errorf("function %s is refused: %s", call, why))
			} else if f, ok := c.known[call]; ok {
				p.calls[call] = f
				p.mutates = p.mutates || slices.Contains(mutators, call)
			}
		}
	}
	return p, errs
}

// execute runs the template for an object.
func (p *program) execute(x *rendering) (string, error) {
	data, err := x.data(p)
	if err != nil {
		return "", err
	}
	m := x.meter
	calls := template.FuncMap{
		callOut: m.spendOutput, callRange: m.spendRange, callSpend: m.spendValue,
		callStep: func(n int64) (string, error) { return "", m.spend(n) },
	}
	for name, f := range p.calls {
		calls[name] = f.bind(m)
	}
	t := template.New(programName).Funcs(calls)
	for name, tree := range p.trees {
		if _, err := t.AddParseTree(name, tree); err != nil {
			return "", err
		}
	}
	out := output{meter: m}
	if err := t.Execute(&out, data); err != nil {
		return "", templateError(err, x.secret)
	}
	return out.text.String(), nil
}

// templateError says where a template failed and why. If the source is a Secret, it does not say why: the reason may
// contain values of it.
func templateError(err error, secret bool) error {
	for _, plain := range []error{errBudget, errDepth, errOutput} {
		if errors.Is(err, plain) {
			return plain
		}
	}
	text := strings.TrimPrefix(err.Error(), "template: ")
	text = strings.Replace(text, fmt.Sprintf(" executing %q", programName), "", 1)
	text = strings.ReplaceAll(text, callSpend+" ", "")
	var missing *missingError
	switch where, _, found := strings.Cut(text, ">: "); {
	case errors.As(err, &missing):
		return missing
	case secret && found:
		return errors.New(where + ">")
	case secret:
		return errors.New("the template fails")
	}
	return errors.New(text)
}

// missingError is errMissing with the part of the template that prints the value.
type missingError struct{ action string }

func (e *missingError) Error() string { return e.action + ": " + errMissing.Error() }

// output collects what a template writes.
type output struct {
	text  bytes.Buffer
	meter *meter
}

var errOutput = fmt.Errorf("it makes more than %d bytes", maxOutput)

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > maxOutput {
		return 0, errOutput
	}
	if err := o.meter.spend(int64(len(p))); err != nil {
		return 0, err
	}
	return o.text.Write(p)
}

// spendOutput spends the size of a value that an action prints, and returns its text.
func (m *meter) spendOutput(action string, v any) (string, error) {
	if v == nil {
		return "", &missingError{action}
	}
	if err := m.tree(v); err != nil {
		return "", err
	}
	return fmt.Sprint(v), nil
}

// spendValue spends the size of a value, and returns it.
func (m *meter) spendValue(v any) (any, error) { return v, m.tree(v) }

// spendRange is spendValue for what a loop ranges over. It spends all items at once, since the keys of a map are sorted
// before the first item.
func (m *meter) spendRange(v any) (any, error) {
	if n, ok := asInt(v); ok {
		return v, m.product(n, costNode)
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Map {
		return v, m.product(r.Len(), costSort)
	}
	return v, m.items(v)
}
