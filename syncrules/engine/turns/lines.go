// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package turns

import "slices"

// Path leads to a line: the names of those on the way, the top one first. No path is the beginning of another one.
type Path []string

// Lines are where things wait. The zero Lines are empty.
type Lines[K any] struct {
	top line[K]
	n   int
}

// line has things that wait, or others below it that have.
type line[K any] struct {
	name  string
	keys  []K // the first is next
	below map[string]*line[K]
	order []*line[K] // those below, the first is next
}

// Len is how many things wait.
func (l *Lines[K]) Len() int { return l.n }

// Push has something wait at the end of a line.
func (l *Lines[K]) Push(path Path, k K) {
	l.n++
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
		at = next
	}
	at.keys = append(at.keys, k)
}

// Pop takes what is next. There must be something.
func (l *Lines[K]) Pop() K {
	l.n--
	return l.top.pop()
}

// pop takes something of the line below whose turn it is, which is the last from then on.
func (l *line[K]) pop() (k K) {
	if len(l.order) == 0 {
		l.keys, k = rest(l.keys)
		return k
	}
	var next *line[K]
	l.order, next = rest(l.order)
	k = next.pop()
	if len(next.keys)+len(next.order) > 0 {
		l.order = append(l.order, next)
	} else {
		delete(l.below, next.name)
	}
	return k
}

// Keep has only those wait still that keep says.
func (l *Lines[K]) Keep(keep func(K) bool) { l.n = l.top.keep(keep) }

func (l *line[K]) keep(keep func(K) bool) (n int) {
	l.keys = slices.DeleteFunc(l.keys, func(k K) bool { return !keep(k) })
	n = len(l.keys)
	l.order = slices.DeleteFunc(l.order, func(next *line[K]) bool {
		left := next.keep(keep)
		if n += left; left == 0 {
			delete(l.below, next.name)
		}
		return left == 0
	})
	return n
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
		if next == nil {
			return n * float64(len(l.order)+1)
		}
		n *= float64(len(l.order))
		l = next
	}
	return n * float64(len(l.keys)+1)
}

// rest takes the first element, and lets go of it.
func rest[T any](s []T) (others []T, first T) {
	var none T
	first, s[0] = s[0], none
	return s[1:], first
}
