// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/history"
)

// noteOf encodes positions, as the program does before it ends.
func noteOf(t *testing.T, p *history.Positions, kinds ...schema.GroupVersionKind) []byte {
	t.Helper()
	note, err := p.Note(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// recalled are the positions of the next start of the program.
func recalled(t *testing.T, note []byte) *history.Positions {
	t.Helper()
	p := history.NewPositions()
	if err := p.Recall(note); err != nil {
		t.Fatal(err)
	}
	return p
}

// nextStart is what the next start of the program recalls of positions.
func nextStart(t *testing.T, p *history.Positions) *history.Positions {
	t.Helper()
	return recalled(t, noteOf(t, p))
}

// A restore while the program does not run is noticed by its next start, which waits for a confirmation that no start has
// seen before.
func TestARestoreIsNoticedByTheNextStart(t *testing.T) {
	for name, restore := range map[string]func(*api){
		"caught up": (*api).restoreAndCatchUp,
		"behind":    func(a *api) { a.restore(101, secret("one", "yes")) },
		"leapt": func(a *api) {
			a.restore(1_000_000_101, secret("one", "yes"))
			a.set(func() { a.oldest = 1_000_000_101 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, j, p := newAPI(t), &sinkRecorder{}, history.NewPositions()
				p.Confirm("an earlier one")
				options := threeSecrets(a)
				stop := a.watchFrom(t, p, options, j)
				a.put(secret("two", "yes"))
				time.Sleep(time.Second)
				stop()
				restore(a)
				for _, confirmed := range []string{"", "an earlier one"} { // a start each
					p, j = nextStart(t, p), &sinkRecorder{}
					p.Confirm(confirmed)
					stop = a.watchFrom(t, p, options, j)
					j.wantRestored(t)
					stop()
					a.set(func() { a.oldest = max(a.oldest, 1000) }) // the proof was compacted
				}
				p.Confirm("new")
				p, j = nextStart(t, p), &sinkRecorder{} // before the restored server was read
				p.Confirm("new")
				stop = a.watchFrom(t, p, options, j)
				if j.settle(); j.lastError() != nil {
					t.Errorf("confirmed: %v", j.lastError())
				}
				stop()
				p, j = nextStart(t, p), &sinkRecorder{}
				p.Confirm("new")
				stop = a.watchFrom(t, p, options, j)
				defer stop()
				if j.settle(); j.lastError() != nil {
					t.Errorf("at the next start: %v", j.lastError())
				}
			})
		})
	}
}

// seenLater changes a note to one of a machine whose clock is ahead.
func seenLater(t *testing.T, note []byte, ahead time.Duration) []byte {
	t.Helper()
	return regexp.MustCompile(`"seen":\d+`).ReplaceAllFunc(note, func(seen []byte) []byte {
		at, err := strconv.ParseInt(strings.TrimPrefix(string(seen), `"seen":`), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, `"seen":%d`, at+int64(ahead.Seconds()))
	})
}

// A server that was not restored is not taken for restored by the next start, also where the clock went back.
func TestAnOrdinaryServerIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j, p := newAPI(t), &sinkRecorder{}, history.NewPositions()
		options := threeSecrets(a)
		stop := a.watchFrom(t, p, options, j)
		a.put(secret("two", "yes"))
		stop()
		note := seenLater(t, noteOf(t, p), time.Hour)
		a.remove(secret("two", "yes"))
		for range 100 {
			a.put(secret("one", "yes"))
		}
		for _, compacted := range []int{0, 150} {
			a.set(func() { a.oldest = compacted })
			j = &sinkRecorder{}
			stop := a.watchFrom(t, recalled(t, note), options, j)
			if j.settle(); j.lastError() != nil {
				t.Errorf("compacted at %d: %v", compacted, j.lastError())
			}
			stop()
		}
	})
}

// There is news when objects have changed, and none when the server was merely written to.
func TestNewsOfAWatch(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, _ *sinkRecorder, p *history.Positions) {
		step := func(what string, want bool, do func()) {
			t.Helper()
			do()
			if time.Sleep(time.Second); p.News() != want {
				t.Errorf("%s: news is %t", what, !want)
			}
		}
		step("the first list", true, func() {})
		step("nothing", false, func() {})
		noteOf(t, p)
		step("a bookmark", false, func() { p.Advance(secretKind, 0, "105") })
		step("a bookmark long after the note", true, func() { time.Sleep(time.Hour); p.Advance(secretKind, 0, "106") })
		a.set(func() { a.rv = 110 })
		noteOf(t, p)
		step("an object", true, func() { a.put(secret("two", "yes")) })
		step("a deletion", true, func() { a.remove(secret("two", "yes")) })
		step("a confirmation that was seen before", false, func() { p.Confirm("an earlier one") })
		step("a confirmation", true, func() { p.Confirm("a later one") })
		step("a list of the same after it", true, func() { a.expire(); a.net.cutConnections(); time.Sleep(time.Minute) })
		step("another list of the same", false, func() { a.expire(); a.net.cutConnections(); time.Sleep(time.Minute) })
		step("a restore", true, func() { a.restore(50); time.Sleep(time.Minute) })
		if nextStart(t, p).News() {
			t.Error("what was recalled is news")
		}
	})
}

// A deletion that was undone is noticed by the next start of the program, too.
func TestAnUndoneDeletionIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j, kind := newAPI(t), &sinkRecorder{}, schema.GroupVersionKind{Version: "v1", Kind: "Node"}
		node := func(name string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			u.SetName(name)
			return u
		}
		a.put(node("x"))
		a.put(node("y"))
		there := maps.Clone(a.objects)
		p := history.NewPositions()
		stop := a.watchFrom(t, p, WatchOptions{GVK: kind}, j)
		a.remove(node("x"))
		time.Sleep(time.Second)
		note := noteOf(t, p, kind)
		stop()
		a.restore(102, slices.Collect(maps.Values(there))...)
		a.put(node("later"))
		a.put(node("later"))
		p, j = recalled(t, note), &sinkRecorder{}
		stop = a.watchFrom(t, p, WatchOptions{GVK: kind}, j)
		defer stop()
		j.wantRestored(t)
	})
}
