// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"reflect"
)

// Why a meter refuses more work.
var (
	errBudget = errors.New("it takes too much time or memory")
	errDepth  = fmt.Errorf("it is nested more than %d levels deep", maxDepth)
)

// budget is how much all overrides of one copy may spend together. A unit is about a nanosecond, or a byte.
const budget = 16 << 20

// The costs in addition to bytes.
const (
	costNode     = 32   // a value in a tree
	costStep     = 32   // a part of a template, each time that it runs
	costSort     = 256  // a key of a map that is ranged over
	costCall     = 512  // a call of a function
	costTemplate = 8192 // a call of a template, with its stack: it may call itself
)

// maxDepth is how deep a value may be nested.
const maxDepth = 128

// meter limits the work that rules of other clusters can cause for one copy. It counts work and not time, so that the
// result is the same on every machine.
type meter struct{ left int64 }

func (m *meter) spend(n int64) error {
	if n < 0 || n > m.left {
		m.left = 0
		return errBudget
	}
	m.left -= n
	return nil
}

// product spends a times b. Both may be any number.
func (m *meter) product(a, b int) error {
	if a <= 0 || b <= 0 {
		return nil
	}
	if int64(a) > budget || int64(b) > budget {
		return m.spend(budget + 1)
	}
	return m.spend(int64(a) * int64(b))
}

// smaller says whether a value has fewer than about limit bytes when it is written as JSON.
func smaller(v any, limit int64) bool {
	m := meter{left: limit}
	return m.walk(v, 2, maxDepth) == nil
}

// tree spends the cost of a walk through all of a value, or of a copy of it. What a value contains twice counts twice.
func (m *meter) tree(v any) error { return m.walk(v, costNode, maxDepth) }

// walk knows all types that values in templates can have. It refuses others, because they might have methods.
func (m *meter) walk(v any, node int64, depth int) error {
	if depth == 0 {
		return errDepth
	}
	if err := m.spend(node); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return m.spend(int64(len(v)))
	case map[string]any:
		return m.walkMap(v, node, depth)
	case document:
		return m.walkMap(v, node, depth)
	case []any:
		for _, c := range v {
			if err := m.walk(c, node, depth-1); err != nil {
				return err
			}
		}
		return nil
	case [][]any:
		for _, c := range v {
			if err := m.walk(c, node, depth-1); err != nil {
				return err
			}
		}
		return nil
	case []string:
		for _, c := range v {
			if err := m.spend(node + int64(len(c))); err != nil {
				return err
			}
		}
		return nil
	case map[string]string:
		for k, c := range v {
			if err := m.spend(2*node + int64(len(k)+len(c))); err != nil {
				return err
			}
		}
		return nil
	case []int:
		return m.spend(node * int64(len(v)))
	}
	switch reflect.TypeOf(v).Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return nil
	default:
		return fmt.Errorf("a template cannot use a %T", v)
	}
}

func (m *meter) walkMap(v map[string]any, node int64, depth int) error {
	for k, c := range v {
		if err := m.spend(node + int64(len(k))); err != nil {
			return err
		}
		if err := m.walk(c, node, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// items spends the cost of a loop over the items of a value, without what they contain.
func (m *meter) items(v any) error {
	if text, ok := v.(string); ok {
		return m.spend(costNode + int64(len(text)))
	}
	n := 0
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		n = r.Len()
	default:
	}
	return m.spend(costNode * int64(n+1))
}

// top spends the cost of a look at the value itself, without its items. The length of a text counts.
func (m *meter) top(v any) error {
	text, _ := v.(string)
	return m.spend(costNode + int64(len(text)))
}
