// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

func one(place.Key) []turns.Path { return []turns.Path{{"one"}} }

// Lanes that have recovered do not wait behind one that still hangs, and a fast write in a lane does not let the
// others of it take all workers.
func TestLanes(t *testing.T) {
	now := time.Now()
	l := New(8)
	key := func(namespace string, i int) place.Key {
		return place.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: namespace, Name: fmt.Sprint(i)}
	}
	enter := func(namespace string, i int) bool { return l.Enter(key(namespace, i), now, one) }
	strike := func(namespace string, times int, at time.Time) {
		for range times {
			l.took(laneOf(key(namespace, 0)), 2*slow, at)
		}
	}
	for i := range 8 {
		if !enter("hangs", i) {
			t.Fatal("nothing is known of it yet")
		}
	}
	strike("hangs", strikes-1, now)
	if turn := l.Leave(key("hangs", 0), 2*slow, now); len(turn) > 0 {
		t.Fatalf("nobody waits, and yet %v", turn)
	}
	if enter("hangs", 8) || !enter("fine", 0) {
		t.Error("7 of 8 are held by it")
	}
	if enter("hangs", 8) {
		t.Error("it waits")
	}
	if turn := l.Leave(key("fine", 0), time.Millisecond, now); len(turn) > 0 {
		t.Errorf("a fast write elsewhere calls %v", turn)
	}
	if turn := l.Leave(key("hangs", 1), time.Millisecond, now); len(turn) > 0 {
		t.Errorf("a fast write calls %v while 6 are held", turn)
	}
	for i := 2; i < 4; i++ {
		l.Leave(key("hangs", i), 2*slow, now)
	}
	turn := l.Leave(key("hangs", 4), 2*slow, now)
	if len(turn) != 1 || turn[0] != key("hangs", 8) {
		t.Fatalf("its turn has %v", turn)
	}
	if turn := l.Leave(key("hangs", 5), 0, now); len(turn) > 0 {
		t.Errorf("nobody else waits, and yet %v", turn)
	}
	for i := range 4 {
		enter("hangs", 20+i)
	}
	for i := range 3 {
		if enter("hangs", 30+i) {
			t.Errorf("%d enters", i)
		}
	}
	// Another one that is slow waits beside it, not behind it; and all of one that is slow no more go on.
	now = now.Add(memory - time.Second)
	strike("hangs", 1, now)
	strike("other", strikes, now.Add(-20*time.Second))
	for i := range 5 {
		if enter("other", i) {
			t.Errorf("other %d enters", i)
		}
	}
	now = now.Add(15 * time.Second)
	turn = l.Leave(key("hangs", 6), 2*slow, now)
	if len(turn) < 5 || turn[0] != key("other", 0) || turn[4] != key("other", 4) {
		t.Errorf("its turn has %v", turn)
	}
	// Three slow namespaces of a kind are a slow kind.
	l = New(8)
	for i, ns := range []string{"a", "b", "c"} {
		enter(ns, i)
		strike(ns, strikes-1, now)
		l.Leave(key(ns, i), 2*slow, now)
	}
	for i := range 4 {
		enter(fmt.Sprint("n", i), i)
	}
	if enter("another", 0) || !l.Enter(place.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "default", Name: "s"}, now, one) {
		t.Error("its kind is slow, and no other")
	}
	for range fast - 1 {
		l.took(laneOf(key("a", 0)), time.Millisecond, now)
	}
	if !l.isSlow(laneOf(key("a", 0)), now) {
		t.Error("it has not been fast for long")
	}
	if l.took(laneOf(key("a", 0)), time.Millisecond, now); l.isSlow(laneOf(key("a", 0)), now) {
		t.Error("it has been fast for long enough")
	}
	strike("old", strikes-1, now)
	now = now.Add(2 * memory)
	if strike("old", 1, now); l.isSlow(laneOf(key("old", 0)), now) {
		t.Error("what was long ago counts")
	}
	if l.Empty() {
		t.Error("it is empty with keys in it")
	}
}

// Of the keys that wait in a lane each line has its turn. A key that was called is not let go of until it enters; those of a lane that is not slow any more are nothing special.
func TestTurnsInALane(t *testing.T) {
	now := time.Now()
	l := New(2)
	key := func(owner string, i int) place.Key {
		return place.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "hangs", Name: fmt.Sprint(owner, i)}
	}
	of := func(k place.Key) []turns.Path { return []turns.Path{{k.Name[:1]}} }
	l.Enter(key("m", 0), now, of)
	for range strikes {
		l.took(laneOf(key("m", 0)), 2*slow, now)
	}
	for i := 1; i < 100; i++ {
		if l.Enter(key("m", i), now, of) {
			t.Fatal("one of two workers has one of it")
		}
	}
	l.Enter(key("b", 1), now, of)
	for _, want := range []place.Key{key("m", 1), key("b", 1), key("m", 2)} {
		if !l.Has(want) {
			t.Errorf("%s waits", want)
		}
		turn := l.Leave(key("m", 0), 2*slow, now)
		if len(turn) != 1 || turn[0] != want {
			t.Fatalf("called are %v, want %v", turn, want)
		}
		if !l.Has(want) {
			t.Errorf("%s was called", want)
		}
		if !l.Enter(want, now, of) || l.Has(want) {
			t.Errorf("it is the turn of %s", want)
		}
		l.working[laneOf(want)] = 1
	}
	freed := l.Leave(key("m", 0), 0, now.Add(2*memory))
	if len(freed) != 97 {
		t.Errorf("%d are let go of once nothing is slow any more", len(freed))
	}
	for _, k := range freed {
		if l.Has(k) {
			t.Fatalf("%s was not called", k)
		}
	}
	if !l.Empty() {
		t.Errorf("what is kept: %+v", l)
	}
}

// Who has copies in hundreds of slow lanes has no more turns than who has some in one.
func TestLanesOfOneHaveOneTurn(t *testing.T) {
	now := time.Now()
	l := New(2)
	of := func(k place.Key) []turns.Path { return []turns.Path{{k.Name[:1]}} }
	key := func(namespace, name string) place.Key {
		return place.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: namespace, Name: name}
	}
	l.kinds[schema.GroupKind{Kind: "ConfigMap"}] = now.Add(time.Hour)
	l.Enter(key("first", "m"), now, of)
	for i := range 100 {
		l.Enter(key(fmt.Sprint("n", i), "m"), now, of)
	}
	for i := range 5 {
		l.Enter(key("honest", fmt.Sprint("b", i)), now, of)
	}
	working, honest := key("first", "m"), 0
	for range 10 {
		turn := l.Leave(working, 2*slow, now)
		if len(turn) != 1 || !l.Enter(turn[0], now, of) {
			t.Fatalf("called are %v", turn)
		}
		if working = turn[0]; working.Namespace == "honest" {
			honest++
		}
	}
	if honest != 5 {
		t.Errorf("%d of the first 10 are of who has few", honest)
	}
}
