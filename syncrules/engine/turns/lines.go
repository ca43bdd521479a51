// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package turns

import "slices"

// Path leads to a line: the names of those on the way, the top one first. No path is the beginning of another one.
type Path []string

// Lines are where things wait. The zero Lines are empty.
type Lines[K any] struct{ top line[K] }

// line has things that wait, or others below it that have.
type line[K any] struct {
	name  string
	keys  []K // the first is next
	below map[string]*line[K]
	order []*line[K] // those below, the first is next
	live  int        // how many wait here or below, without those that have left
	lines int        // of those below, in which something waits
}

// Len is how many things wait.
func (l *Lines[K]) Len() int { return l.top.live }

// Push has something wait at the end of a line.
func (l *Lines[K]) Push(path Path, k K) {
	at := &l.top
	for _, name := range path {
		next := at.below[name]
		if next == nil {
			next = &line[K]{name: name}
			if at.below == nil {
				at.below = map[string]*line[K]{}
			}
			at.below[name] = next
			at.order = append(at.order, next)
		}
		if next.live == 0 {
			at.lines++
		}
		at.live++
		at = next
	}
	at.live++
	at.keys = append(at.keys, k)
}

// Leave says that something at the end of a path waits there no more: Pop does not find it valid. Until then it takes memory, and no turn.
func (l *Lines[K]) Leave(path Path) {
	at := &l.top
	for _, name := range path {
		next := at.below[name]
		if next.live == 1 {
			at.lines--
		}
		at.live--
		at = next
	}
	at.live--
}

// Pop takes what is next of what is valid. There must be something.
func (l *Lines[K]) Pop(valid func(K) bool) K { return l.top.pop(valid) }

// pop takes something of the line below whose turn it is, which is the last from then on.
func (l *line[K]) pop(valid func(K) bool) (k K) {
	l.live--
	for len(l.order) > 0 {
		var next *line[K]
		if l.order, next = rest(l.order); next.live == 0 {
			delete(l.below, next.name) // all that it has left it
			continue
		}
		k = next.pop(valid)
		if next.live > 0 {
			l.order = append(l.order, next)
		} else {
			l.lines--
			delete(l.below, next.name)
		}
		return k
	}
	for {
		if l.keys, k = rest(l.keys); valid(k) {
			return k
		}
	}
}

// Tidy lets go of what is not valid.
func (l *Lines[K]) Tidy(valid func(K) bool) { l.top.tidy(valid) }

func (l *line[K]) tidy(valid func(K) bool) {
	l.keys = slices.DeleteFunc(l.keys, func(k K) bool { return !valid(k) })
	l.order = slices.DeleteFunc(l.order, func(next *line[K]) bool {
		if next.live == 0 {
			delete(l.below, next.name)
			return true
		}
		next.tidy(valid)
		return false
	})
}

// Shortest is the path at whose end something would wait for the fewest others, of several that are alike the first, and how many come before it, with itself.
func (l *Lines[K]) Shortest(paths []Path) (shortest Path, before float64) {
	for i, path := range paths {
		if n := l.top.before(path); i == 0 || n < before {
			shortest, before = path, n
		}
	}
	return shortest, before
}

// before is how many things come before what is put at the end of a path, and that itself, as long as the lines beside it do not end.
func (l *line[K]) before(path Path) float64 {
	n := 1.0
	for _, name := range path {
		next := l.below[name]
		if next == nil || next.live == 0 {
			return n * float64(l.lines+1)
		}
		n *= float64(l.lines)
		l = next
	}
	return n * float64(l.live+1)
}

// rest takes the first element, and lets go of it.
func rest[T any](s []T) (others []T, first T) {
	var none T
	first, s[0] = s[0], none
	return s[1:], first
}
