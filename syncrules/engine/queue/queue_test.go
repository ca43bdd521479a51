// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

var kind = schema.GroupKind{Kind: "ConfigMap"}

func key(name string) place.Key {
	return place.Key{GroupKind: kind, Namespace: "default", Name: name}
}

// lines are those of keys that are named line/…, or line+line/….
func lines(k place.Key) (paths []turns.Path) {
	names, _, _ := strings.Cut(k.Name, "/")
	for name := range strings.SplitSeq(names, "+") {
		paths = append(paths, turns.Path{name})
	}
	return paths
}

// open is a queue that is open until the test ends.
func open(t *testing.T) *Keys {
	q := New(lines)
	q.Open()
	t.Cleanup(q.ShutDown)
	return &q
}

// put puts up n keys that are named alike.
func put(q *Keys, name string, n int) {
	for i := range n {
		q.EnqueueLocked(key(fmt.Sprint(name, "/", i)))
	}
}

// take has a worker work on n keys, and returns their names.
func take(t *testing.T, q *Keys, n int) (names []string) {
	t.Helper()
	for len(names) < n {
		if q.Len() == 0 {
			t.Fatalf("nothing waits any more, after %v", names)
		}
		k, _ := q.Get()
		if q.InTurnLocked(k) {
			q.TakenLocked(k)
			names = append(names, k.Name)
			q.DoneLocked(k)
		}
		q.Done(k)
	}
	return names
}

// count is how many of the names begin so.
func count(names []string, prefix string) (n int) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// wantNothingKept checks that the queue is as at first.
func wantNothingKept(t *testing.T, q *Keys) {
	t.Helper()
	if q.pending.len() > 0 || q.PendingLocked([]schema.GroupKind{kind}) || q.Len() > 0 {
		t.Errorf("pending are %v, of %v", q.pending.entries, q.byKind)
	}
	if w := q.waiting; len(w.front)+w.valid.len()+w.lines.Len()+w.sorted.len()+w.next.len() > 0 {
		t.Errorf("what is kept: %+v", w)
	}
}

func TestKeysHaveTurns(t *testing.T) {
	q := open(t)
	put(q, "m", 1000)
	put(q, "b", 5)
	put(q, "m+c", 5)
	if got := take(t, q, 15); count(got, "b") != 5 || count(got, "m+c") != 5 {
		t.Errorf("taken are %v", got)
	}
	take(t, q, 995)
	wantNothingKept(t, q)
}

// Every key is taken once for all the times that it was put up while it waited.
func TestEachKeyIsTakenOnce(t *testing.T) {
	q := open(t)
	const n = 300
	for range 3 {
		put(q, "m", n)
	}
	put(q, "b", n)
	seen := map[string]int{}
	for _, name := range take(t, q, 100) {
		seen[name]++
	}
	again := len(seen)
	put(q, "m", n) // 50 again, the others wait still
	for _, name := range take(t, q, 2*n-50) {
		seen[name]++
	}
	if again != 100 || len(seen) != 2*n {
		t.Errorf("%d were taken at first, and then %d", again, len(seen))
	}
	for name, times := range seen {
		if times > 2 {
			t.Errorf("%s was taken %d times", name, times)
		}
	}
	wantNothingKept(t, q)
}

// A key that is put up during the work on it waits for its turn.
func TestAgainDuringTheWork(t *testing.T) {
	q := open(t)
	put(q, "m", 100)
	put(q, "b", 2)
	first, _ := q.Get()
	if !q.InTurnLocked(first) {
		t.Fatal("it was put up without a delay")
	}
	q.TakenLocked(first)
	for range 2 {
		q.EnqueueLocked(first)
	}
	if q.DoneLocked(first) {
		t.Error("it was put up again")
	}
	q.Done(first)
	if got := take(t, q, 4); count(got, "b") != 2 {
		t.Errorf("taken are %v", got)
	}
	if got := take(t, q, 98); !slices.Contains(got, first.Name) {
		t.Errorf("%s was not taken again", first.Name)
	}
	wantNothingKept(t, q)
}

// What comes after a delay waits in its line, too, and does not count before it is taken. It is put up once with what comes without.
func TestDelays(t *testing.T) {
	q := open(t)
	put(q, "m", 100)
	late := key("m/late")
	for range 2 {
		q.EnqueueAfter(late, time.Nanosecond)
	}
	for q.Len() < 101 {
		time.Sleep(time.Millisecond)
	}
	put(q, "b", 1)
	if got := take(t, q, 2); count(got, "b") != 1 {
		t.Errorf("taken are %v", got)
	}
	if _, ok := q.pending.get(late); ok {
		t.Error("what nobody put up without a delay is not pending")
	}
	q.EnqueueLocked(late)
	q.EnqueueAfter(late, 0)
	if got := take(t, q, 100); count(got, late.Name) != 1 || got[99] != late.Name {
		t.Errorf("taken are %v", got)
	}
	wantNothingKept(t, q)
}

// of is the line of a name.
func of(name string) func() []turns.Path {
	return func() []turns.Path { return []turns.Path{{name}} }
}

// A key that waits behind many comes earlier once it is put up because of somebody behind whom nobody waits, and is taken once. Nobody can have it wait for longer.
func TestMoves(t *testing.T) {
	q := open(t)
	put(q, "m", 100)
	for i := range 5 {
		q.EnqueueForLocked(key(fmt.Sprint("x/", i)), of("m"))
	}
	for i := range 5 {
		q.EnqueueForLocked(key(fmt.Sprint("x/", i)), of("b"))
		q.EnqueueForLocked(key(fmt.Sprint("x/", i)), of("m"))
	}
	if got := take(t, q, 10); count(got, "x") != 5 {
		t.Errorf("taken are %v", got)
	}
	if got := take(t, q, 95); count(got, "x") != 0 {
		t.Errorf("then are taken %v", got)
	}
	wantNothingKept(t, q)
	put(q, "m", 100)
	for range 10 * manyOld {
		q.EnqueueForLocked(key("x/0"), of("m"))
		q.EnqueueForLocked(key("x/0"), of("b"))
		for name := ""; name != "x/0"; {
			name = take(t, q, 1)[0]
			put(q, "m", 100)
		}
	}
	if old := q.waiting.old; old > manyOld+101 {
		t.Errorf("%d tickets are kept that are not valid", old)
	}
}

// So it is wherever the key is as it is put up for another one: with a worker, with a worker and put up already, or in a line after a delay.
func TestMovesFromEverywhere(t *testing.T) {
	for name, c := range map[string]func(q *Keys, k place.Key){
		"with a worker": func(q *Keys, k place.Key) {
			q.EnqueueForLocked(k, of("b"))
		},
		"with a worker, put up for others": func(q *Keys, k place.Key) {
			q.EnqueueForLocked(k, of("m"))
			q.EnqueueForLocked(k, of("b"))
		},
		"with a worker, and then for others": func(q *Keys, k place.Key) {
			q.EnqueueForLocked(k, of("b"))
			q.EnqueueForLocked(k, of("m"))
		},
		"with a worker, put up for nobody": func(q *Keys, k place.Key) {
			q.EnqueueLocked(k)
			q.EnqueueForLocked(k, of("b"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := open(t)
			k := key("m/x")
			q.EnqueueLocked(k)
			q.Get()
			q.TakenLocked(k)
			put(q, "m", 100)
			c(q, k)
			q.DoneLocked(k)
			q.Done(k)
			q.waiting.forget(k)
			if got := take(t, q, 3); !slices.Contains(got, k.Name) {
				t.Errorf("taken are %v", got)
			}
			take(t, q, 98)
			wantNothingKept(t, q)
		})
	}
	t.Run("after a delay", func(t *testing.T) {
		q := open(t)
		put(q, "m", 100)
		k := key("m/late")
		q.EnqueueAfter(k, time.Nanosecond)
		for q.Len() < 101 {
			time.Sleep(time.Millisecond)
		}
		first, _ := q.Get()
		if first != k || q.InTurnLocked(k) {
			t.Fatal("others wait")
		}
		q.EnqueueForLocked(k, of("m")) // while the worker has it
		q.Done(k)
		q.EnqueueForLocked(k, of("b"))
		if got := take(t, q, 3); !slices.Contains(got, k.Name) {
			t.Errorf("taken are %v", got)
		}
		take(t, q, 98)
		wantNothingKept(t, q)
	})
}

// A key that is parked counts, is not put up before its turn, and then it comes first or waits in its line.
func TestParked(t *testing.T) {
	for _, next := range []bool{true, false} {
		q := open(t)
		put(q, "m", 1)
		k, _ := q.Get()
		if !q.InTurnLocked(k) {
			t.Fatal("nobody else waits")
		}
		q.ParkLocked(k)
		q.Done(k)
		q.EnqueueLocked(k)
		if !q.PendingLocked([]schema.GroupKind{kind}) || q.Len() > 0 {
			t.Error("it is pending, and not in the queue")
		}
		put(q, "b", 1)
		q.UnparkLocked(k, next)
		first, _ := q.Get()
		if (first == k) != next {
			t.Errorf("next %v: %s comes first", next, first)
		}
		if !next && !q.InTurnLocked(first) {
			t.Error("it was in its line")
		}
		q.TakenLocked(first)
		q.DoneLocked(first)
		q.Done(first)
		take(t, q, 1)
		wantNothingKept(t, q)
	}
}

// Workers take keys while these are put up, none is lost, and no two have the same.
func TestManyWorkers(t *testing.T) {
	q := open(t)
	var mu sync.Mutex
	var group sync.WaitGroup
	const n = 500
	version, done, busy := map[place.Key]int{}, map[place.Key]int{}, map[place.Key]bool{}
	for range 8 {
		group.Go(func() {
			for {
				k, shutdown := q.Get()
				if shutdown {
					return
				}
				mu.Lock()
				if !q.InTurnLocked(k) {
					mu.Unlock()
					q.Done(k)
					continue
				}
				if busy[k] {
					t.Errorf("two have %s", k)
				}
				busy[k] = true
				q.TakenLocked(k)
				now := version[k]
				mu.Unlock()
				mu.Lock()
				busy[k], done[k] = false, now
				q.DoneLocked(k)
				mu.Unlock()
				q.Done(k)
			}
		})
	}
	for i := range 20 * n {
		k := key(fmt.Sprint([]string{"m", "b"}[i%2], "/", i%n))
		mu.Lock()
		version[k]++
		q.EnqueueLocked(k)
		if i%7 == 0 {
			q.EnqueueAfter(k, time.Microsecond)
		}
		mu.Unlock()
	}
	for idle := false; !idle; time.Sleep(time.Millisecond) {
		mu.Lock()
		idle = q.pending.len() == 0
		mu.Unlock()
	}
	q.ShutDown() // some delays may not have ended: what they are for was put up without one, too
	group.Wait()
	for k, want := range version {
		if done[k] != want {
			t.Errorf("version %d of %s was seen last, want %d", done[k], k, want)
		}
	}
	if q.pending.len()+q.waiting.Len() > 0 {
		t.Errorf("pending are %v, and %d wait", q.pending.entries, q.waiting.Len())
	}
}
