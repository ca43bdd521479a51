// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func all[K any](K) bool { return true }

// path is that of the names in a string.
func path(s string) Path { return strings.Split(s, " ") }

// push has n things wait, which are named by their path.
func push(l *Lines[string], n int, p string) {
	for range n {
		l.Push(path(p), p)
	}
}

// pop takes n things, and counts them by name.
func pop(t *testing.T, l *Lines[string], n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		if l.Len() == 0 {
			t.Fatalf("nothing waits any more, after %v", got)
		}
		got[l.Pop(all)]++
	}
	return got
}

func TestEachLineHasItsTurn(t *testing.T) {
	l := &Lines[string]{}
	push(l, 1000, "m 1")
	push(l, 1000, "m 2 3")
	push(l, 1000, "m 2 4")
	push(l, 10, "b")
	if got, want := pop(t, l, 16), map[string]int{"b": 8, "m 1": 4, "m 2 3": 2, "m 2 4": 2}; !maps.Equal(got, want) {
		t.Errorf("taken are %v, want %v", got, want)
	}
	if got, want := pop(t, l, 12), map[string]int{"b": 2, "m 1": 5, "m 2 3": 3, "m 2 4": 2}; !maps.Equal(got, want) {
		t.Errorf("then %v, want %v", got, want)
	}
	pop(t, l, l.Len())
	if top := l.top; len(top.keys)+len(top.below)+len(top.order) > 0 {
		t.Errorf("what is kept: %+v", top)
	}
}

func TestWithinALineTheFirstIsServed(t *testing.T) {
	l := &Lines[int]{}
	for i := range 10 {
		l.Push(path("b"), i)
	}
	for i := range 10 {
		if got := l.Pop(all); got != i {
			t.Errorf("%d is taken before %d", got, i)
		}
	}
}

// Where something waits for the fewest others depends on the lines beside it at each level, not on its own alone.
func TestShortest(t *testing.T) {
	l := &Lines[string]{}
	for i := range 1000 {
		push(l, 3, fmt.Sprint("m ", i))
	}
	push(l, 5, "b")
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"nobody waits in one of a thousand lines": {[]string{"m new", "b"}, "b"},
		"the other way around":                    {[]string{"b", "m new"}, "b"},
		"a line of its own":                       {[]string{"b", "m 7", "c"}, "c"},
		"the first of two that are alike":         {[]string{"m 7", "c", "d"}, "c"},
		"one":                                     {[]string{"m 7"}, "m 7"},
	} {
		var paths []Path
		for _, p := range c.paths {
			paths = append(paths, path(p))
		}
		if got, _ := l.Shortest(paths); !slices.Equal(got, path(c.want)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What has left takes no turn, does not count where somebody looks for the shortest line, and is let go of.
func TestLeave(t *testing.T) {
	for _, tidy := range []bool{false, true} {
		l := &Lines[int]{}
		left := map[int]bool{}
		valid := func(i int) bool { return !left[i] }
		paths := []Path{path("m 1"), path("m 2"), path("b")}
		for i := range 99 {
			l.Push(paths[i%3], i)
		}
		for i := range 99 {
			if i%3 == 1 || i < 51 {
				left[i] = true
				l.Leave(paths[i%3])
			}
		}
		if tidy {
			l.Tidy(valid)
		}
		if got, before := l.Shortest([]Path{path("m 2"), path("m 1")}); l.Len() != 32 || got[1] != "2" || before != 4 {
			t.Errorf("%d wait, and behind %v come %v before", l.Len(), got, before)
		}
		var got []int
		for range 4 {
			got = append(got, l.Pop(valid))
		}
		if !slices.Equal(got, []int{51, 53, 54, 56}) {
			t.Errorf("then come %v", got)
		}
		l.Push(path("m 2"), 100)
		for l.Len() > 0 {
			got = append(got, l.Pop(valid))
		}
		if len(got) != 33 || !slices.Contains(got, 100) {
			t.Errorf("in all there come %v", got)
		}
		if l.Tidy(valid); len(l.top.below)+len(l.top.order) > 0 || l.top.lines != 0 {
			t.Errorf("what is kept: %+v", l.top)
		}
	}
}
