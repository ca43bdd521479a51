// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"

	"github.com/cppforlife/go-patch/patch"
)

// put puts a value into the place under node that the tokens of a path lead to, and returns what is then in the
// place of node. It means exactly what the replace of go-patch means, on JSON values: those of the library work
// on another kind of map, and copy every value through YAML, which is neither cheap nor exact. Steps through
// lists are spent.
func put(node any, tokens []patch.Token, value any, m *meter) (any, error) {
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
		below, err := put(below, tokens[1:], value, m)
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
		return putAt(node, t.Index, t.Modifiers, tokens[1:], value, m)
	case patch.MatchingIndexToken:
		list, at, err := find(node, t, m)
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			return putAt(list, at, t.Modifiers, tokens[1:], value, m)
		}
		below, err := put(map[string]any{t.Key: t.Value}, tokens[1:], value, m)
		return append(list, below), err
	}
	return nil, errPath
}

// emptyFor is what an optional field that is missing starts from, by what follows it in the path.
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

// putAt goes on at an item of a list. At the end of the path the item is replaced, or with :before and :after
// the value is inserted beside it.
func putAt(node any, index int, modifiers []patch.Modifier, rest []patch.Token, value any, m *meter) (any, error) {
	list, ok := node.([]any)
	if !ok {
		return nil, errNoList
	}
	if len(rest) > 0 {
		at, err := patch.ArrayIndex{Index: index, Modifiers: modifiers, Array: list}.Concrete()
		if err != nil {
			return nil, errNoItem
		}
		list[at], err = put(list[at], rest, value, m)
		return list, err
	}
	at, err := patch.ArrayInsertion{Index: index, Modifiers: modifiers, Array: list}.Concrete()
	if err != nil {
		return nil, errNoItem
	}
	return at.Update(list, value), m.spend(int64(len(list)))
}

// take takes away what the tokens lead to, and returns what is then in the place of node. What an optional
// part does not find is no error. It means what the remove of go-patch means.
func take(node any, tokens []patch.Token, m *meter) (any, error) {
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
		below, err := take(below, tokens[1:], m)
		if err == nil {
			object[t.Key] = below
		}
		return object, err
	case patch.IndexToken:
		return takeAt(node, t.Index, t.Modifiers, tokens[1:], m)
	case patch.MatchingIndexToken:
		list, at, err := find(node, t, m)
		if err != nil || at < 0 {
			return list, err
		}
		return takeAt(list, at, t.Modifiers, tokens[1:], m)
	}
	return nil, errPath
}

func takeAt(node any, index int, modifiers []patch.Modifier, rest []patch.Token, m *meter) (any, error) {
	list, ok := node.([]any)
	if !ok {
		return nil, errNoList
	}
	at, err := patch.ArrayIndex{Index: index, Modifiers: modifiers, Array: list}.Concrete()
	if err != nil {
		return nil, errNoItem
	}
	if len(rest) > 0 {
		list[at], err = take(list[at], rest, m)
		return list, err
	}
	return append(list[:at:at], list[at+1:]...), m.spend(int64(len(list)))
}

// find is the index of the one item with a value under a key; -1 where an optional one is missing.
func find(node any, t patch.MatchingIndexToken, m *meter) (list []any, at int, err error) {
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
