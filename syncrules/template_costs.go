// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp/syntax"
	"strings"
)

// Limits of arguments that have a parser of their own.
const (
	maxPattern = 1 << 10 // characters of a regular expression
	maxProgram = 5000    // steps that it compiles to
	maxVersion = 256
	costNumber = 320 // characters of the longest number, without a width
)

// costs lists the functions whose work or result can be much larger than their arguments. What they will cost is spent
// before they run.
func costs() map[string]func(*meter, []any) error {
	out := map[string]func(*meter, []any) error{
		"trimAll": trimCost, "trimall": trimCost,
		"repeat": func(m *meter, a []any) error { return m.product(number(a[0]), len(textOf(a[1]))) },
		"indent": indentCost, "nindent": indentCost,
		"replace": func(m *meter, a []any) error {
			return m.product(strings.Count(textOf(a[2]), textOf(a[0])), len(textOf(a[1])))
		},
		"join": func(m *meter, a []any) error { return m.product(length(a[1]), len(textOf(a[0]))) },
		"wrap": func(m *meter, a []any) error { return m.product(len(textOf(a[1])), 2) },
		"wrapWith": func(m *meter, a []any) error {
			return m.product(len(textOf(a[2]))/max(number(a[0]), 1)+1, len(textOf(a[1])))
		},
		"split": splitCost, "splitn": splitCost, "splitList": splitCost,
		"until":     func(m *meter, a []any) error { return rangeCost(m, 0, number(a[0]), 1) },
		"untilStep": func(m *meter, a []any) error { return rangeCost(m, number(a[0]), number(a[1]), number(a[2])) },
		"seq":       seqCost,
		"printf":    printfCost,
		"uniq":      squareCost, "mustUniq": squareCost,
		"without": withoutCost, "mustWithout": withoutCost,
		"chunk": chunkCost, "mustChunk": chunkCost,
		"set":    func(m *meter, a []any) error { return m.tree(a[2]) }, // it is copied
		"semver": versionCost, "semverCompare": versionCost,
	}
	for _, name := range []string{"toPrettyJson", "mustToPrettyJson"} { // two spaces for each level
		out[name] = func(m *meter, a []any) error { return times(m, 8, a[0]) }
	}
	for _, name := range []string{"toJson", "mustToJson", "toRawJson", "mustToRawJson", "quote", "html", "js", "urlquery"} { // escapes
		out[name] = func(m *meter, a []any) error { return times(m, 4, a...) }
	}
	for _, name := range []string{"fromJson", "mustFromJson"} {
		out[name] = func(m *meter, a []any) error { return m.product(len(textOf(a[0])), costNode) }
	}
	for _, name := range []string{"addf", "subf", "mulf", "divf"} { // each operation may add digits
		out[name] = func(m *meter, a []any) error { return m.product(len(a)*len(a), costCall) }
	}
	for _, name := range []string{"sortAlpha", "deepEqual", "has", "mustHas"} {
		out[name] = func(m *meter, a []any) error { return times(m, 2, a...) }
	}
	for _, prefix := range []string{"regex", "mustRegex"} {
		for _, name := range []string{"Match", "Find", "FindAll", "ReplaceAll", "ReplaceAllLiteral", "Split"} {
			out[prefix+name] = regexCost
		}
	}
	return out
}

// number is an argument of type int.
func number(v any) int {
	n, _ := v.(int)
	return n
}

func length(v any) int {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return r.Len()
	default:
		return 1
	}
}

// times spends the size of the arguments n times.
func times(m *meter, n int, args ...any) error {
	for range n {
		for _, arg := range args {
			if err := m.tree(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func indentCost(m *meter, a []any) error {
	return m.product(strings.Count(textOf(a[1]), "\n")+1, number(a[0]))
}

// trimCost: each character may be searched for in all of the other text.
func trimCost(m *meter, a []any) error { return m.product(len(textOf(a[0])), len(textOf(a[1]))) }

func splitCost(m *meter, a []any) error {
	return m.product(strings.Count(textOf(a[len(a)-1]), textOf(a[0]))+1, 4*costNode) // a map in the case of split
}

// rangeCost also prevents an overflow of integers in the loop, which would never end.
func rangeCost(m *meter, start, stop, step int) error {
	for _, n := range []int{start, stop, step} {
		if n > math.MaxInt32 || n < math.MinInt32 {
			return errBudget
		}
	}
	if step == 0 {
		return nil
	}
	n := (stop - start) / step
	return m.product(max(n, -n)+1, costNode) // an upper limit: a loop in the wrong direction does nothing
}

func seqCost(m *meter, a []any) error {
	start, step, stop := 1, 1, 0
	switch len(a) {
	case 1:
		stop = number(a[0])
	case 2:
		start, stop = number(a[0]), number(a[1])
	case 3:
		start, step, stop = number(a[0]), number(a[1]), number(a[2])
	}
	if stop < start && step > 0 {
		step = -step
	}
	return rangeCost(m, start, stop+step, step)
}

// printfCost: each verb may print any argument, and each item of an argument that is a list, with the width that the
// format gives, up to a million.
func printfCost(m *meter, a []any) error {
	format := textOf(a[0])
	width, run := 0, 0
	for i := range len(format) {
		switch c := format[i]; {
		case c >= '0' && c <= '9':
			run = min(run*10+int(c-'0'), 1_000_000)
		case c == '*':
			width += 1_000_000
		default:
			width, run = width+run, 0
		}
	}
	values := nodes(a[1:], maxDepth) // a verb prints each item of a list with its width
	if err := m.product(width+run, values); err != nil {
		return err
	}
	verbs := strings.Count(format, "%")
	if err := m.product(verbs*values, costNumber); err != nil {
		return err
	}
	return times(m, verbs, a[1:]...)
}

// nodes counts the values in a value, including itself.
func nodes(v any, depth int) int {
	n := 1
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Slice:
		for i := 0; i < r.Len() && depth > 0; i++ {
			n += nodes(r.Index(i).Interface(), depth-1)
		}
	case reflect.Map:
		for _, item := range r.Seq2() {
			if depth > 0 {
				n += 1 + nodes(item.Interface(), depth-1)
			}
		}
	default:
	}
	return n
}

func squareCost(m *meter, a []any) error { return times(m, length(a[0]), a[0]) }

func withoutCost(m *meter, a []any) error { return times(m, len(a), a[0]) }

func chunkCost(_ *meter, a []any) error {
	if number(a[0]) < 1 {
		return errors.New("the size must be at least 1")
	}
	return nil
}

func versionCost(_ *meter, a []any) error {
	for _, v := range a {
		if len(textOf(v)) > maxVersion {
			return fmt.Errorf("a version has at most %d characters", maxVersion)
		}
	}
	return nil
}

// regexCost is the number of steps of the expression for each character. The result of a replacement is at most the
// replacement at each position, and the parts of the text that it repeats.
func regexCost(m *meter, a []any) error {
	pattern, input, replacement := textOf(a[0]), textOf(a[1]), ""
	if len(a) == 3 {
		replacement = textOf(a[2])
	}
	if len(pattern) > maxPattern {
		return fmt.Errorf("a regular expression has at most %d characters", maxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return errors.New("it is not a regular expression")
	}
	steps := programSize(re)
	if steps > maxProgram {
		return errBudget
	}
	if err := m.product(steps, 128); err != nil {
		return err
	}
	if err := m.product(len(input)+1, steps/2+96); err != nil {
		return err
	}
	if err := m.product(len(input)+1, len(replacement)); err != nil {
		return err
	}
	return m.product(strings.Count(replacement, "$"), len(input))
}

// programSize estimates how many steps an expression compiles to, without compiling it: repetitions multiply.
func programSize(re *syntax.Regexp) int {
	size := 2
	if re.Op == syntax.OpLiteral {
		size += len(re.Rune)
	}
	for _, sub := range re.Sub {
		size = min(size+programSize(sub), maxProgram+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxProgram+1)
}
