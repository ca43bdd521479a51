// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Of what waits that cluster is named which brought most of it along, as near to it as possible, and who admitted that one: a thief
// hides behind none of those that it invented.
func TestWhoBroughtAlongWhatWaits(t *testing.T) {
	t.Parallel()
	const own = "own"
	parents := map[string]string{"hub": own, "honest": "hub", "thief": "hub", "between": "thief", "other": "hub", "round": "about", "about": "round"}
	invented, behind := map[string]int{"honest": 3}, map[string]int{"honest": 3}
	for n := range 1000 {
		id, below := fmt.Sprint("invented-", n), fmt.Sprint("below-", n)
		parents[id], invented[id] = "thief", 2
		if n%2 == 1 {
			parents[id] = fmt.Sprint("invented-", n-1)
		}
		parents[below], behind[below] = "between", 2
	}
	for what, tc := range map[string]struct {
		changes map[string]int
		all, of int
		from    []string
	}{
		"nothing":                        {nil, 0, 0, nil},
		"thousands of one":               {map[string]int{"thief": 5000, "honest": 1}, 5001, 5000, []string{"thief", "hub"}},
		"two of each that it invented":   {invented, 2003, 2000, []string{"thief", "hub"}},
		"behind one that it invented":    {behind, 2003, 2000, []string{"between", "thief", "hub"}},
		"of two as many":                 {map[string]int{"thief": 2, "honest": 2}, 4, 4, []string{"hub"}},
		"of some that have none between": {map[string]int{"x": 2, "y": 2, "z": 2}, 6, 0, nil},
		"of a circle":                    {map[string]int{"round": 2, "about": 1}, 3, 3, []string{"round", "about"}},
	} {
		b := &backlog{self: own, parent: func(id string) string { return parents[id] }}
		if all, of, from := b.main(tc.changes); all != tc.all || of != tc.of || !slices.Equal(from, tc.from) {
			t.Errorf("%s: %d of %d from %v, want %d of %d from %v", what, of, all, from, tc.of, tc.all, tc.from)
		}
	}
}

// What waits is told once it has waited for a while, anew after a minute, and no more when nothing waits; nothing is looked at then.
func TestBacklogIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		waiting, looks, changes := map[string]int{}, 0, 0
		locked := func(do func()) {
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		i := &Importer{backlog: &backlog{
			self: "own", parent: func(string) string { return "own" }, name: strings.ToUpper, changed: func() { locked(func() { changes++ }) }, log: slog.New(slog.DiscardHandler),
			waiting: func() (out map[string]int) {
				locked(func() { looks, out = looks+1, maps.Clone(waiting) })
				return out
			},
			wake: make(chan struct{}, 1),
		}}
		go func() { _ = i.backlog.run(t.Context()) }()
		says := func(what, want string, told int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := i.Slowed(); got == "" && want != "" || !strings.Contains(got, want) || want == "" && got != "" || changes != told {
				t.Errorf("%s: told %d times, at last %q, want %q and %d", what, changes, got, want, told)
			}
		}
		time.Sleep(time.Hour)
		says("at first", "", 0)
		i.backlog.waits()
		time.Sleep(time.Hour)
		says("a moment's wait", "", 0)
		locked(func() {
			if looks != 1 {
				t.Errorf("it was looked at %d times in two hours", looks)
			}
		})
		locked(func() { waiting["a"] = 7 })
		i.backlog.waits()
		time.Sleep(backlogLook)
		says("of one", ": 7, 7 of them of cluster A and", 1)
		locked(func() { waiting["b"] = 70 })
		time.Sleep(backlogTold - backlogLook)
		says("within a minute", ": 7, 7 of", 1)
		time.Sleep(backlogLook)
		says("after a minute", ": 77, 70 of them of cluster B and", 2)
		locked(func() { clear(waiting) })
		time.Sleep(backlogLook)
		says("in the end", "", 3)
	})
}
