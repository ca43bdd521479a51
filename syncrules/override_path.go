// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"

	"github.com/cppforlife/go-patch/patch"
)

// replaceAt sets the value at a path below node, and returns the changed node. It does on JSON values exactly what the
// replace operation of go-patch does. The library itself works on another type of map, and copies every value through
// YAML, which is neither cheap nor exact. Loops over lists are spent.
func replaceAt(node any, tokens []patch.Token, value any, m *meter) (any, error) {
	if len(tokens) == 0 {
		return value, nil
	}
	switch t := tokens[0].(type) {
	case patch.KeyToken:
		object, ok := node.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%w: %s is not in an object", errPath, t.Key)
		}
		below, found := object[t.Key]
		if !found {
			if !t.Optional {
				return nil, fmt.Errorf("%w: there is no %s", errPath, t.Key)
			}
			if below, ok = emptyFor(tokens[1:]); !ok {
				return nil, fmt.Errorf("%w: there is no %s", errPath, t.Key)
			}
		}
		below, err := replaceAt(below, tokens[1:], value, m)
		if err == nil {
			object[t.Key] = below
		}
		return object, err
	case patch.AfterLastIndexToken:
		list, ok := node.([]any)
		if !ok {
			return nil, errNoList
		}
		return append(list, value), m.spend(1)
	case patch.IndexToken:
		return replaceItem(node, t.Index, t.Modifiers, tokens[1:], value, m)
	case patch.MatchingIndexToken:
		list, at, err := findItem(node, t, m)
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			return replaceItem(list, at, t.Modifiers, tokens[1:], value, m)
		}
		below, err := replaceAt(map[string]any{t.Key: t.Value}, tokens[1:], value, m)
		return append(list, below), err
	}
	return nil, errPath
}

// emptyFor returns the initial value of an optional field that is missing, which depends on what follows it in the path.
func emptyFor(tokens []patch.Token) (any, bool) {
	if len(tokens) == 0 {
		return nil, true
	}
	switch tokens[0].(type) {
	case patch.KeyToken:
		return map[string]any{}, true
	case patch.MatchingIndexToken, patch.AfterLastIndexToken:
		return []any{}, true
	}
	return nil, false
}

// replaceItem is replaceAt for an item of a list. At the end of the path it replaces the item or, with :before and :after,
// inserts the value before or after it.
func replaceItem(node any, index int, modifiers []patch.Modifier, rest []patch.Token, value any, m *meter) (any, error) {
	list, ok := node.([]any)
	if !ok {
		return nil, errNoList
	}
	if len(rest) > 0 {
		at, err := patch.ArrayIndex{Index: index, Modifiers: modifiers, Array: list}.Concrete()
		if err != nil {
			return nil, errNoItem
		}
		list[at], err = replaceAt(list[at], rest, value, m)
		return list, err
	}
	at, err := patch.ArrayInsertion{Index: index, Modifiers: modifiers, Array: list}.Concrete()
	if err != nil {
		return nil, errNoItem
	}
	return at.Update(list, value), m.spend(int64(len(list)))
}

// removeAt removes the value at a path below node, and returns the changed node. An optional part that is missing is no
// error. It does what the remove operation of go-patch does.
func removeAt(node any, tokens []patch.Token, m *meter) (any, error) {
	switch t := tokens[0].(type) {
	case patch.KeyToken:
		object, ok := node.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%w: %s is not in an object", errPath, t.Key)
		}
		below, found := object[t.Key]
		switch {
		case !found && t.Optional:
			return object, nil
		case !found:
			return nil, fmt.Errorf("%w: there is no %s", errPath, t.Key)
		case len(tokens) == 1:
			delete(object, t.Key)
			return object, nil
		}
		below, err := removeAt(below, tokens[1:], m)
		if err == nil {
			object[t.Key] = below
		}
		return object, err
	case patch.IndexToken:
		return removeItem(node, t.Index, t.Modifiers, tokens[1:], m)
	case patch.MatchingIndexToken:
		list, at, err := findItem(node, t, m)
		if err != nil || at < 0 {
			return list, err
		}
		return removeItem(list, at, t.Modifiers, tokens[1:], m)
	}
	return nil, errPath
}

// removeItem is removeAt for an item of a list.
func removeItem(node any, index int, modifiers []patch.Modifier, rest []patch.Token, m *meter) (any, error) {
	list, ok := node.([]any)
	if !ok {
		return nil, errNoList
	}
	at, err := patch.ArrayIndex{Index: index, Modifiers: modifiers, Array: list}.Concrete()
	if err != nil {
		return nil, errNoItem
	}
	if len(rest) > 0 {
		list[at], err = removeAt(list[at], rest, m)
		return list, err
	}
	return append(list[:at:at], list[at+1:]...), m.spend(int64(len(list)))
}

// findItem returns the index of the one item with this value under this key; -1 if an optional item is missing.
func findItem(node any, t patch.MatchingIndexToken, m *meter) (list []any, at int, err error) {
	list, ok := node.([]any)
	if !ok {
		return nil, 0, errNoList
	}
	if err := m.spend(int64(len(list))); err != nil {
		return nil, 0, err
	}
	at, found := -1, 0
	for i, item := range list {
		if object, ok := item.(map[string]any); ok && object[t.Key] == any(t.Value) {
			at = i
			found++
		}
	}
	switch {
	case found == 0 && t.Optional:
		return list, -1, nil
	case found != 1:
		return nil, 0, fmt.Errorf("%w: %d items have %s=%s, not one", errPath, found, t.Key, t.Value)
	}
	return list, at, nil
}
