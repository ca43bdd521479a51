// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// recalled are the positions of the next start of the program, and their note.
func recalled(t *testing.T, p *Positions) (*Positions, string) {
	t.Helper()
	note, err := p.Note()
	if err != nil {
		t.Fatal(err)
	}
	next := NewPositions()
	if err := next.Recall(note); err != nil {
		t.Fatal(err)
	}
	return next, string(note)
}

// The size of a note is bounded whatever the API server sent.
func TestNotesAreBounded(t *testing.T) {
	p := NewPositions()
	kind := func(i int) schema.GroupVersionKind {
		return schema.GroupVersionKind{Version: "v1", Kind: fmt.Sprintf("Kind%d", i)}
	}
	for i := range 2 * notedKinds {
		p.Confirm(fmt.Sprint(i))
		at := p.kindLocked(kind(i))
		at.Highest, at.seen = "1000", time.Unix(int64(i), 0)
		for n := range 2 * notedObjects {
			watched := fmt.Sprintf("%d", n)
			at.sawLocked(watched, SeenObject{types.NamespacedName{Name: strings.Repeat("x", notedName-len(watched))}, fmt.Sprint(1 + n)})
			at.missedLocked(watched, AbsentObject{SeenObject: SeenObject{types.NamespacedName{Name: strings.Repeat("y", notedName-len(watched))}, fmt.Sprint(1 + n)}})
		}
	}
	digits := strings.Repeat("9", 1<<20)
	last := p.kindLocked(kind(2*notedKinds - 1))
	last.sawLocked("long", SeenObject{types.NamespacedName{Name: strings.Repeat("x", 1<<20)}, "9"})
	last.sawLocked("digits", SeenObject{types.NamespacedName{Name: "x"}, digits})
	p.kindLocked(kind(0)).RolledBack = true
	p.kindLocked(schema.GroupVersionKind{Version: "v1", Kind: "Digits"}).Highest = digits
	next, note := recalled(t, p)
	if len(note) > MaxNote || len(note) < MaxNote/4 {
		t.Errorf("the note has %d bytes", len(note))
	}
	_, recent := next.kinds[kind(2*notedKinds-1)]
	if _, rolledBack := next.kinds[kind(0)]; !recent || !rolledBack || len(next.kinds) != notedKinds {
		t.Errorf("%d kinds are recalled, the last one seen: %t, the one that was rolled back: %t", len(next.kinds), recent, rolledBack)
	}
	if len(next.confirmed) != notedConfirmations {
		t.Errorf("%d confirmations are recalled", len(next.confirmed))
	}
	at := next.kindLocked(kind(2*notedKinds - 1))
	if at.Highest != last.Highest || len(at.lastSeen) < 2 || len(at.lastAbsent) != len(at.lastSeen) || at.lastSeen[fmt.Sprint(2*notedObjects-1)].ResourceVersion == "" {
		t.Errorf("recalled of it: %q, objects seen in %v, absent in %v", at.Highest, slices.Sorted(maps.Keys(at.lastSeen)), slices.Sorted(maps.Keys(at.lastAbsent)))
	}
}

// The note is a file format: a later version of the program reads it.
func TestNoteFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPositions()
		at := list(t, p, secretKind, "100", true)
		p.Saw(secretKind, at.Incarnation, "a", seen("new", "110"))
		p.Missed(secretKind, at.Incarnation, "a", AbsentObject{SeenObject: seen("gone", "120")})
		p.Missed(secretKind, at.Incarnation, "", AbsentObject{seen("unselected", "130"), "app=x", ""}) // another watch may not select it
		p.RollBack(secretKind, at.Incarnation)
		next, note := recalled(t, p)
		want := `{"kinds":[{"version":"v1","kind":"Secret","highest":"100","seen":946684800,"back":true,"confirmed":true,` +
			`"newest":[{"watched":"a","namespace":"a","name":"new","version":"110"}],` +
			`"gone":[{"watched":"a","namespace":"a","name":"gone","version":"120"}]}]}`
		if diff := cmp.Diff(want, note); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if _, again := recalled(t, next); again != note {
			t.Errorf("recalled and noted again: %s", again)
		}
		if !next.Refuses(secretKind) {
			t.Error("the next start does not wait for a confirmation")
		}
	})
}

// A server that is trusted needs no confirmation at the next start either.
func TestNoteOfATrustedServer(t *testing.T) {
	p := TrustingPositions(nil)
	list(t, p, secretKind, "100", true)
	p.RollBack(secretKind, 0)
	if next, note := recalled(t, p); next.Refuses(secretKind) {
		t.Error(note)
	}
}

// A restore is reported once, also when the program ends before each kind was read again.
func TestRestoreIsNotReportedAgainByTheNextStart(t *testing.T) {
	reported := 0
	count := func(schema.GroupVersionKind) bool { reported++; return true }
	p := TrustingPositions(count)
	for _, kind := range []schema.GroupVersionKind{secretKind, nodeKind} {
		list(t, p, kind, "100", true)
	}
	list(t, p, secretKind, "50", true)
	for _, read := range []func(){func() {}, func() { list(t, p, nodeKind, "60", true) }} {
		read()
		note, err := p.Note()
		if err != nil {
			t.Fatal(err)
		}
		next := TrustingPositions(count)
		if err := next.Recall(note); err != nil {
			t.Fatal(err)
		}
		list(t, next, secretKind, "50", true)
		list(t, next, nodeKind, "60", true)
		if reported != 1 {
			t.Errorf("reported %d times, the note is %s", reported, note)
		}
		list(t, next, secretKind, "40", true) // another restore
		if reported != 2 {
			t.Errorf("another restore: reported %d times", reported)
		}
		reported = 1
	}
}

func TestRecallOfWhatIsNoNote(t *testing.T) {
	p := NewPositions()
	if err := p.Recall(nil); err != nil {
		t.Error("an empty note:", err)
	}
	if err := p.Recall([]byte("{")); err == nil {
		t.Error("half a note was recalled")
	}
}

// There is news when objects have changed, and none when the server was merely written to.
func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPositions()
		for _, step := range []struct {
			name string
			news bool
			do   func()
		}{
			{"nothing", false, func() {}},
			{"the first list", true, func() { list(t, p, secretKind, "100", true) }},
			{"another list", true, func() { list(t, p, secretKind, "101", true) }}, // there is no note yet
			{"a note", false, func() { recalled(t, p) }},
			{"the same list", false, func() { list(t, p, secretKind, "102", true) }},
			{"a bookmark", false, func() { p.Advance(secretKind, 0, "103") }},
			{"a bookmark long after the note", true, func() { time.Sleep(noteAge + time.Second); p.Advance(secretKind, 0, "104") }},
			{"a note again", false, func() { recalled(t, p) }},
			{"an object", true, func() { p.Saw(secretKind, 0, "", seen("x", "105")) }},
			{"the same object", false, func() { p.Saw(secretKind, 0, "", seen("x", "105")) }},
			{"a deletion", true, func() { p.Missed(secretKind, 0, "", AbsentObject{SeenObject: seen("x", "106")}) }},
			{"a confirmation", true, func() { p.Confirm("a") }},
			{"the same confirmation", false, func() { p.Confirm("a") }},
			{"a list after it", true, func() { list(t, p, secretKind, "107", true) }},
			{"a restore", true, func() { p.RollBack(secretKind, 0) }},
		} {
			if step.do(); p.News() != step.news {
				t.Errorf("%s: news is %t", step.name, !step.news)
			}
		}
		if next, _ := recalled(t, p); next.News() {
			t.Error("what was recalled is news")
		}
	})
}
