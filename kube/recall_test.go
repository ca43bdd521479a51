// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// nextStart is what another start of the program recalls of positions.
func (p *Positions) nextStart(t *testing.T) *Positions {
	t.Helper()
	note, err := p.Note()
	if err != nil {
		t.Fatal(err)
	}
	next := NewPositions()
	if err := next.Recall(note); err != nil {
		t.Fatal(err)
	}
	return next
}

// A server that is restored while the program is away is noticed by its next start, and what that waits for is a
// confirmation that no start has heard before.
func TestARestoreIsNoticedByTheNextStart(t *testing.T) {
	for name, restore := range map[string]func(*api){
		"caught up": (*api).caughtUp,
		"behind":    func(a *api) { a.restore(101, secret("one", "yes")) },
		"leapt": func(a *api) {
			a.restore(1_000_000_101, secret("one", "yes"))
			a.set(func() { a.oldest = 1_000_000_101 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, j, p := newAPI(t), &journal{}, NewPositions()
				p.Confirm("an earlier one")
				options := threeSecrets(a)
				stop := a.watchFrom(t, p, options, j)
				a.put(secret("two", "yes"))
				time.Sleep(time.Second)
				stop()
				restore(a)
				for _, confirmed := range []string{"", "an earlier one"} { // a start each
					p, j = p.nextStart(t), &journal{}
					p.Confirm(confirmed)
					stop = a.watchFrom(t, p, options, j)
					j.wantRestored(t)
					stop()
					a.set(func() { a.oldest = max(a.oldest, 1000) }) // what told of it is compacted
				}
				p.Confirm("new")
				p, j = p.nextStart(t), &journal{} // before the new history was read
				p.Confirm("new")
				stop = a.watchFrom(t, p, options, j)
				if j.settle(); j.lastError() != nil {
					t.Errorf("confirmed: %v", j.lastError())
				}
				stop()
				p, j = p.nextStart(t), &journal{}
				p.Confirm("new")
				stop = a.watchFrom(t, p, options, j)
				defer stop()
				if j.settle(); j.lastError() != nil {
					t.Errorf("the start after that: %v", j.lastError())
				}
			})
		})
	}
}

// What happens to a server that is not restored is no restore to the next start: also where the clock went back.
func TestAnOrdinaryServerIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j, p := newAPI(t), &journal{}, NewPositions()
		options := threeSecrets(a)
		stop := a.watchFrom(t, p, options, j)
		a.put(secret("two", "yes"))
		stop()
		for position := range p.kinds {
			p.kinds[position].seen = time.Now().Add(time.Hour)
		}
		a.remove(secret("two", "yes"))
		for range 100 {
			a.put(secret("one", "yes"))
		}
		for _, compacted := range []int{0, 150} {
			a.set(func() { a.oldest = compacted })
			j = &journal{}
			stop := a.watchFrom(t, p.nextStart(t), options, j)
			if j.settle(); j.lastError() != nil {
				t.Errorf("compacted at %d: %v", compacted, j.lastError())
			}
			stop()
		}
	})
}

// There is news of what is different in the objects, and none of a server that is merely written to.
func TestNewsOfPositions(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, _ *journal, p *Positions) {
		step := func(what string, want bool, do func()) {
			t.Helper()
			do()
			if time.Sleep(time.Second); p.News() != want {
				t.Errorf("%s: news is %t", what, !want)
			}
		}
		step("the first list", true, func() {})
		step("nothing", false, func() {})
		if _, err := p.Note(); err != nil {
			t.Fatal(err)
		}
		step("a bookmark", false, func() { p.raise(secretKind, 0, "105") })
		step("a bookmark long after the note", true, func() { time.Sleep(noteAge); p.raise(secretKind, 0, "106") })
		a.set(func() { a.rv = 110 })
		if _, err := p.Note(); err != nil {
			t.Fatal(err)
		}
		step("an object", true, func() { a.put(secret("two", "yes")) })
		step("a deletion", true, func() { a.remove(secret("two", "yes")) })
		step("a confirmation that was heard", false, func() { p.Confirm("an earlier one") })
		step("a confirmation", true, func() { p.Confirm("a later one") })
		step("a list of the same after it", true, func() { a.expire(); a.net.cutConnections(); time.Sleep(time.Minute) })
		step("another list of the same", false, func() { a.expire(); a.net.cutConnections(); time.Sleep(time.Minute) })
		step("a restore", true, func() { a.restore(50); time.Sleep(time.Minute) })
		if p.nextStart(t).News() {
			t.Error("what was recalled is news")
		}
	})
}

// A note is made of what a server says, and its size is bounded whatever that is.
func TestNotesAreBounded(t *testing.T) {
	p := NewPositions()
	kind := func(i int) schema.GroupVersionKind {
		return schema.GroupVersionKind{Version: "v1", Kind: fmt.Sprintf("Kind%d", i)}
	}
	for i := range 2 * notedKinds {
		p.Confirm(fmt.Sprint(i))
		at := p.of(kind(i))
		at.highest, at.seen = "1000", time.Unix(int64(i), 0)
		for n := range 2 * notedWitnesses {
			watched := fmt.Sprintf("%d", n)
			at.saw(watched, witness{types.NamespacedName{Name: strings.Repeat("x", notedName-len(watched))}, fmt.Sprint(1 + n)})
			at.missed(watched, absence{witness: witness{types.NamespacedName{Name: strings.Repeat("y", notedName-len(watched))}, fmt.Sprint(1 + n)}})
		}
	}
	digits := strings.Repeat("9", 1<<20)
	last := p.of(kind(2*notedKinds - 1))
	last.saw("long", witness{types.NamespacedName{Name: strings.Repeat("x", 1<<20)}, "9"})
	last.saw("digits", witness{types.NamespacedName{Name: "x"}, digits})
	p.of(kind(0)).back = true
	p.of(schema.GroupVersionKind{Version: "v1", Kind: "Digits"}).highest = digits
	note, err := p.Note()
	if err != nil || len(note) > MaxNote || len(note) < MaxNote/4 {
		t.Errorf("the note has %d bytes, error %v", len(note), err)
	}
	next := p.nextStart(t)
	_, newest := next.kinds[kind(2*notedKinds-1)]
	if _, back := next.kinds[kind(0)]; !newest || !back || len(next.kinds) != notedKinds {
		t.Errorf("%d kinds are recalled, the last one seen: %t, the one that went back: %t", len(next.kinds), newest, back)
	}
	if len(next.heard) != notedConfirmations {
		t.Errorf("%d confirmations are recalled", len(next.heard))
	}
	at := next.of(kind(2*notedKinds - 1))
	if at.highest != last.highest || len(at.witnesses) < 2 || len(at.absences) != len(at.witnesses) || at.witnesses[fmt.Sprint(2*notedWitnesses-1)].version == "" {
		t.Errorf("recalled of it: %q, witnesses of %v, absences of %v", at.highest, slices.Sorted(maps.Keys(at.witnesses)), slices.Sorted(maps.Keys(at.absences)))
	}
}

// A deletion that was undone is noticed by the next start of the program, too.
func TestAnUndoneDeletionIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j, kind := newAPI(t), &journal{}, schema.GroupVersionKind{Version: "v1", Kind: "Node"}
		node := func(name string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			u.SetName(name)
			return u
		}
		a.put(node("x"))
		a.put(node("y"))
		there := maps.Clone(a.objects)
		p := NewPositions()
		stop := a.watchFrom(t, p, WatchOptions{GVK: kind}, j)
		a.remove(node("x"))
		time.Sleep(time.Second)
		note, err := p.Note(kind)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		a.restore(102, slices.Collect(maps.Values(there))...)
		a.put(node("later"))
		a.put(node("later"))
		p, j = NewPositions(), &journal{}
		if err := p.Recall(note); err != nil {
			t.Fatal(err)
		}
		stop = a.watchFrom(t, p, WatchOptions{GVK: kind}, j)
		defer stop()
		j.wantRestored(t)
	})
}
