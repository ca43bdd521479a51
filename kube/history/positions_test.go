// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	nodeKind   = schema.GroupVersionKind{Version: "v1", Kind: "Node"}
)

// list has a list of all namespaces accepted, or refused, that is requested now and has no objects.
func list(t *testing.T, p *Positions, kind schema.GroupVersionKind, version string, accepted bool) Position {
	t.Helper()
	at, ok := p.AcceptList(kind, p.At(kind), "", version, SeenObject{})
	if ok != accepted {
		t.Errorf("a list of %s at %s: accepted %t", kind.Kind, version, ok)
	}
	return at
}

func seen(name, version string) SeenObject {
	return SeenObject{types.NamespacedName{Namespace: "a", Name: name}, version}
}

// Lists are refused from a proof of a restore until a new confirmation, and a new incarnation begins with that.
func TestRestoreIsRefusedUntilConfirmed(t *testing.T) {
	for name, restore := range map[string]func(p *Positions, at Position){
		"behind":          func(p *Positions, _ Position) { list(t, p, secretKind, "99", false) },
		"far ahead":       func(p *Positions, _ Position) { list(t, p, secretKind, "1000000100", false) },
		"another history": func(p *Positions, at Position) { p.RollBack(secretKind, at.Incarnation) },
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPositions()
			p.Confirm("an earlier one")
			first := list(t, p, secretKind, "100", true)
			restore(p, first)
			if at := p.At(secretKind); !at.RolledBack || !p.Refuses(secretKind) {
				t.Fatalf("after the restore: %+v", at)
			}
			list(t, p, secretKind, "101", false) // it has caught up
			for _, text := range []string{"", "an earlier one"} {
				if p.Confirm(text); !p.Refuses(secretKind) {
					t.Errorf("%q confirmed the restore", text)
				}
			}
			if p.Confirm("new"); p.Refuses(secretKind) {
				t.Error("the confirmation was not taken")
			}
			if at := list(t, p, secretKind, "50", true); at.Highest != "50" || at.RolledBack || at.Incarnation == first.Incarnation {
				t.Errorf("after the confirmation: %+v", at)
			}
			p.RollBack(secretKind, first.Incarnation) // a proof from before
			list(t, p, secretKind, "50", true)
			list(t, p, secretKind, "49", false) // another restore
		})
	}
}

// One restore is reported once, however late the other kinds are read.
func TestRestoreIsReportedOnceForAllKinds(t *testing.T) {
	reported := 0
	p := TrustingPositions(func(kind schema.GroupVersionKind) bool {
		reported++
		return kind.Group == ""
	})
	other := schema.GroupVersionKind{Group: "stored-apart", Version: "v1", Kind: "Thing"}
	list := func(kind schema.GroupVersionKind, version string, want int) {
		t.Helper()
		if list(t, p, kind, version, true); reported != want {
			t.Errorf("%s at %s: reported %d times, want %d", kind.Kind, version, reported, want)
		}
	}
	list(secretKind, "100", 0)
	list(nodeKind, "100", 0)
	list(secretKind, "50", 1)
	p.RollBack(nodeKind, 0)
	list(nodeKind, "50", 1)
	p.RollBack(nodeKind, p.At(nodeKind).Incarnation) // another restore
	list(nodeKind, "60", 2)
	list(secretKind, "40", 2)
	list(secretKind, "30", 3)
	list(other, "9", 3)
	list(other, "8", 4)     // it does not count for the other kinds
	list(nodeKind, "20", 4) // of the third restore
	list(secretKind, "20", 5)
}

// Two watches of one kind, whose lists and events arrive in any order, do not take each other for a
// restore.
func TestPositionsOfSeveralWatches(t *testing.T) {
	p := NewPositions()
	accept := func(asked Position, version string, accepted bool) Position {
		t.Helper()
		at, ok := p.AcceptList(secretKind, asked, "", version, SeenObject{})
		if ok != accepted {
			t.Errorf("a list at %s: accepted %t", version, ok)
		}
		return at
	}
	asked := p.At(secretKind)
	first := accept(asked, "100", true)
	p.Advance(secretKind, first.Incarnation, "120")
	accept(asked, "110", true) // it was requested before the event came
	accept(p.At(secretKind), "120", true)
	accept(p.At(secretKind), "x", true) // no number, no order
	if at := p.At(secretKind); at.Highest != "120" {
		t.Errorf("position %+v", at)
	}
	slow := p.At(secretKind)
	accept(p.At(secretKind), "90", false)
	accept(p.At(secretKind), "130", false)
	p.Advance(secretKind, first.Incarnation, "140") // was on its way
	p.Confirm("a")
	second := accept(p.At(secretKind), "91", true)
	accept(slow, "92", true)                        // requested before the other one was accepted
	p.Advance(secretKind, first.Incarnation, "150") // was on its way
	p.Advance(secretKind, second.Incarnation, "93")
	if at := p.At(secretKind); at.Highest != "93" || at.Incarnation == first.Incarnation {
		t.Errorf("position %+v", at)
	}
	accept(p.At(secretKind), "92", false)
	if p.Refuses(nodeKind) {
		t.Error("another kind is refused, too")
	}
}

func TestConfirmationsAreBounded(t *testing.T) {
	p := NewPositions()
	for i := range 2 * maxConfirmations {
		p.Confirm(strings.Repeat("b", i))
	}
	if len(p.confirmed) > maxConfirmations {
		t.Errorf("%d confirmations are remembered", len(p.confirmed))
	}
}

// What a server is asked about is the newest object of each namespace that is watched, and an absent one if it is newer.
func TestLastSeen(t *testing.T) {
	p := NewPositions()
	at := list(t, p, secretKind, "100", true)
	p.Saw(secretKind, at.Incarnation, "a", seen("new", "90"))
	p.Saw(secretKind, at.Incarnation, "a", seen("old", "80"))
	p.Missed(secretKind, at.Incarnation, "a", AbsentObject{SeenObject: seen("gone", "85")})
	if o, absent := p.LastSeen(secretKind, "a"); o != seen("new", "90") || absent != (AbsentObject{}) {
		t.Errorf("seen %v, absent %v", o, absent)
	}
	want := AbsentObject{seen("gone", "95"), "app=x", ""}
	p.Missed(secretKind, at.Incarnation, "a", want)
	if o, absent := p.LastSeen(secretKind, "a"); o != seen("new", "90") || absent != want {
		t.Errorf("seen %v, absent %v", o, absent)
	}
	if o, absent := p.LastSeen(secretKind, ""); o != (SeenObject{}) || absent != (AbsentObject{}) {
		t.Errorf("in all namespaces: seen %v, absent %v", o, absent)
	}
	p.Saw(secretKind, at.Incarnation-1, "a", seen("newer", "99")) // of an earlier incarnation
	if o, _ := p.LastSeen(secretKind, "a"); o != seen("new", "90") {
		t.Errorf("seen %v", o)
	}
}

// An API server may get further ahead the longer nobody looks.
func TestTooFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPositions()
		at := list(t, p, secretKind, "100", true)
		ahead := func(n int) string { return strconv.Itoa(100 + n) }
		for version, want := range map[string]bool{
			ahead(alwaysAhead): false, ahead(alwaysAhead + 1): true, "x": false, strconv.Itoa(notRevision): false, "99": false,
		} {
			if got := at.TooFarAhead(version); got != want {
				t.Errorf("%s: %t", version, got)
			}
		}
		if time.Sleep(time.Second); at.TooFarAhead(ahead(alwaysAhead + aheadPerSecond)) {
			t.Error("after a second the bound is the same")
		}
	})
}

func TestAwaitConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPositions()
		p.AwaitConfirmation(t.Context(), secretKind) // nothing to wait for
		p.RollBack(secretKind, 0)
		returned := false
		go func() {
			p.AwaitConfirmation(t.Context(), secretKind)
			returned = true
		}()
		if synctest.Wait(); returned {
			t.Error("it did not wait")
		}
		p.Confirm("new")
		if synctest.Wait(); !returned {
			t.Error("it waits after the confirmation")
		}
		p.RollBack(nodeKind, 0)
		list(t, p, nodeKind, "1", true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.RollBack(nodeKind, 1)
		p.AwaitConfirmation(ctx, nodeKind)
	})
}
