// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	good = Account("good")
	bad  = Account("bad")
)

// small are limits that a test reaches.
func small() Limits { return NewLimits(100, 10, 20, 2) }

// write writes a key if it may, else the key waits.
func (q *Quota[K]) write(of Account, k K, bytes int64, now time.Time) bool {
	if q.May(of, k, now) {
		q.Spend(of, k, bytes, now)
		return true
	}
	q.Wait(of, k, now)
	return false
}

func TestBytesAndWritesAreBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bytes int64
		most  int // in the first moment, and then in each second
		each  int
	}{
		"many small ones": {1, 20, 2},
		"few large ones":  {10, 10, 1},
	} {
		now := time.Unix(0, 0)
		q := New[int](small(), now)
		written := 0
		try := func(until time.Time) int {
			before := written
			for ; !now.After(until); now = now.Add(10 * time.Millisecond) {
				for k := range 50 {
					if q.write(bad, k, tc.bytes, now) {
						written++
					}
				}
			}
			return written - before
		}
		if n := try(now); n != tc.most {
			t.Errorf("%s: %d are written at once, want %d", name, n, tc.most)
		}
		if n := try(now.Add(100 * time.Second)); n < 99*tc.each || n > 100*tc.each+1 {
			t.Errorf("%s: %d are written in 100 s, want %d", name, n, 100*tc.each)
		}
		if !q.May(good, 1000, now) {
			t.Errorf("%s: another account must wait", name)
		}
	}
}

// Keys come in turn, each when Next has said so, and Next says it of the first one alone.
func TestTurns(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New[string](small(), now)
	q.Spend(bad, "large", 120, now)
	for _, k := range []string{"one", "two", "three"} {
		if q.write(bad, k, 10, now) {
			t.Fatalf("%s does not wait", k)
		}
	}
	wantNext := func(want string, after time.Duration) {
		t.Helper()
		k, wait, ok := q.Next(now)
		if !ok || k != want || wait < after || wait > after+10*time.Millisecond {
			t.Fatalf("next is %q after %s (%t), want %q after %s", k, wait, ok, want, after)
		}
		if k, _, more := q.Next(now); more {
			t.Fatalf("next is %q, too", k)
		}
		now = now.Add(wait)
	}
	wantNext("one", 2*time.Second)
	if q.write(bad, "two", 10, now) {
		t.Error("the second comes before the first")
	}
	q.Drop("two") // it needs no write any more
	if !q.write(bad, "one", 10, now) {
		t.Error("the first waits when its turn has come")
	}
	wantNext("three", time.Second)
	now = now.Add(-100 * time.Millisecond)
	if q.write(bad, "three", 10, now) {
		t.Error("what comes too early does not wait")
	}
	wantNext("three", 100*time.Millisecond)
	if !q.write(bad, "three", 10, now) || q.Waiting() != 0 {
		t.Errorf("%d wait", q.Waiting())
	}
}

// A key whose write never ends holds up the others of its account for no longer than the rate says.
func TestKeyThatNeverSettles(t *testing.T) {
	t.Parallel()
	begin := time.Unix(0, 0)
	q, now := New[int](small(), begin), begin
	for range 20 { // all writes
		q.Spend(bad, -1, 0, now)
	}
	const keys = 100
	for k := range keys {
		q.write(bad, k, 1, now)
	}
	due, written := map[int]time.Time{}, map[int]bool{}
	for len(written) < keys-1 {
		for k, after, ok := q.Next(now); ok; k, after, ok = q.Next(now) {
			due[k] = now.Add(after)
		}
		if now.After(begin.Add((keys/2 + 2) * time.Second)) {
			t.Fatalf("%d of %d are written after %s", len(written), keys-1, now.Sub(begin))
		}
		for k, at := range maps.Clone(due) {
			if at.After(now) {
				continue
			}
			delete(due, k)
			if k == 0 && !q.May(bad, k, now) {
				t.Fatal("the first waits when its turn has come")
			} else if k != 0 && q.write(bad, k, 1, now) {
				written[k] = true
			}
		}
		now = now.Add(10 * time.Millisecond)
	}
	if q.Drop(0); q.Waiting() != 0 || q.accounts[bad].called != 0 {
		t.Errorf("%d wait, %d are called", q.Waiting(), q.accounts[bad].called)
	}
}

func TestKeyOfAnotherAccountLeavesItsLine(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New[string](small(), now)
	q.Spend(bad, "x", 1000, now)
	q.write(bad, "x", 1, now)
	q.write(bad, "y", 1, now)
	if !q.write(good, "x", 1, now) {
		t.Error("it waits for an account that is not charged")
	}
	if k, _, ok := q.Next(now); !ok || k != "y" {
		t.Errorf("next is %q", k)
	}
}

// However often a process ends, an account gets what comes back, and a small part each time.
func TestRestarts(t *testing.T) {
	t.Parallel()
	now, used := time.Unix(0, 0), 0
	const starts, each = 100, time.Second
	limits := small()
	for range starts {
		q := New[int](limits, now)
		for k := 0; q.write(bad, k, 0, now); k++ {
			used++
		}
		now, limits = now.Add(each), small().AfterRestart(each)
	}
	if most := 20 + starts*2 + 1; used > most {
		t.Errorf("%d writes with a restart each second, want at most %d", used, most)
	}
	rested := small().AfterRestart(time.Hour)
	if rested != small() {
		t.Errorf("an hour after a start it is %+v", rested)
	}
	if n := small().AfterRestart(-time.Hour).Bytes.First; n != 100*leastFirst {
		t.Errorf("after a start in the future it is %v", n)
	}
}

// An account that is made late is as one that was there from the beginning.
func TestLateAccount(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New[int](small().AfterRestart(0), now)
	now = now.Add(5 * time.Second)
	n := 0
	for q.write(bad, n, 0, now) {
		n++
	}
	if n != 12 { // 20/16, and two in each of five seconds
		t.Errorf("%d writes", n)
	}
}

func TestAccountsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New[int](small(), now)
	q.Spend(bad, 0, 1<<40, now)
	for i := range 4 * manyAccounts {
		q.Spend(Account(fmt.Sprint(i)), 0, 1, now)
		now = now.Add(time.Second)
	}
	if len(q.accounts) > 2*manyAccounts || q.accounts[bad] == nil {
		t.Errorf("%d accounts", len(q.accounts))
	}
}

// TestLaws: nobody is given more than the limits say, nothing that waits is forgotten, no account waits for another, and no
// key for one whose write does not end.
func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := small()
		begin := time.Unix(0, 0)
		q, now := New[int](limits, begin), begin
		hanging := map[int]bool{}
		due, spent, writes := map[int]time.Time{}, map[Account]float64{}, map[Account]float64{}
		of := func(k int) Account { return [...]Account{good, bad}[k%2] }
		take := func() {
			for k, after, ok := q.Next(now); ok; k, after, ok = q.Next(now) {
				if at := now.Add(after); due[k].IsZero() || at.Before(due[k]) {
					due[k] = at
				}
			}
		}
		look := func(k int, bytes int64) {
			delete(due, k)
			if !hanging[k] && q.write(of(k), k, bytes, now) {
				spent[of(k)] += float64(bytes)
				writes[of(k)]++
			}
			take()
		}
		pass := func() { // to the first key that is due
			first := -1
			for k, at := range due {
				if first < 0 || at.Before(due[first]) || at.Equal(due[first]) && k < first {
					first = k
				}
			}
			if first >= 0 {
				now = later(now, due[first])
				look(first, 1)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				look(rapid.IntRange(0, 9).Draw(t, "key"), rapid.Int64Range(0, 60).Draw(t, "bytes"))
			},
			"drop": func(t *rapid.T) {
				k := rapid.IntRange(0, 9).Draw(t, "key")
				q.Drop(k)
				delete(due, k)
				delete(hanging, k)
				take()
			},
			"hang": func(t *rapid.T) {
				k := rapid.IntRange(0, 9).Draw(t, "key")
				delete(due, k)
				if hanging[k] = hanging[k] || q.May(of(k), k, now); !hanging[k] {
					q.Wait(of(k), k, now)
				}
				take()
			},
			"fail": func(t *rapid.T) {
				k := rapid.IntRange(0, 9).Draw(t, "key")
				if hanging[k] {
					delete(hanging, k)
					q.Drop(k)
					take()
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"due": func(*rapid.T) { pass() },
			"": func(t *rapid.T) {
				for _, a := range []Account{good, bad} {
					passed := now.Sub(begin).Seconds()
					if spent[a] > limits.Bytes.Most+passed*limits.Bytes.PerSecond+60 || writes[a] > limits.Writes.Most+passed*limits.Writes.PerSecond+1 {
						t.Fatalf("%s has %v bytes and %v writes in %v s", a, spent[a], writes[a], passed)
					}
				}
			},
		})
		waiting := func() (n int) {
			for k := range q.waiting {
				if !hanging[k] {
					n++
				}
			}
			return n
		}
		for n := 0; waiting() > 0; n++ {
			if n > 100 || len(due) == 0 {
				t.Fatalf("%d wait, and will be looked at: %v", q.Waiting(), maps.Clone(due))
			}
			pass()
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// What waited for nothing is paid for by what is written next, which does not wait for long; and it takes nothing of what all have in common.
func TestOwe(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	limits := small()
	limits.Common = NewCommon(small(), "own", func(string) string { return "" }, now)
	q := New[string](limits, now)
	q.Wait(bad, "marked", now)
	for i := range 1000 {
		q.Owe(bad, fmt.Sprint("marked", i), 1, now)
	}
	if q.Owe(bad, "marked", 1, now); q.InLine("marked") || q.Waiting() > 0 {
		t.Error("it waits for its turn")
	}
	if q.write(bad, "next", 1, now) {
		t.Error("nothing is paid")
	}
	if !q.InLine("next") || !q.write(good, "x", 1, now) {
		t.Error("it does not wait, or somebody else does")
	}
	if now = now.Add(2 * time.Second); !q.write(bad, "next", 1, now) { // a sixteenth of 20 writes and of 100 bytes
		t.Error("it waits for too long")
	}
	if q.InLine("next") {
		t.Error("it was written")
	}
}

// Where a key waits for the shortest time depends on how much is written for those before it, and one that waits somewhere goes elsewhere only if that is far better.
func TestDelay(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	q := New[string](NewLimits(1000, 10, 100, 2), now)
	for _, of := range []Account{"large", "small"} {
		size := map[Account]int64{"large": 500, "small": 1}[of]
		for i := range 200 {
			q.Spend(of, "k", size, now)
			q.Wait(of, fmt.Sprint(of, i), now)
		}
	}
	q.Spend("empty", "k", 1100, now)
	delay := func(of Account, k string) int { return int(q.Delay(of, k, now) / time.Second) }
	for of, want := range map[Account][2]int{"large": {15000, 30000}, "small": {90, 300}, "empty": {10, 110}, "new": {0, 0}} {
		if got := delay(of, "k"); got < want[0] || got > want[1] {
			t.Errorf("in %s it waits %d s, want %d to %d", of, got, want[0], want[1])
		}
	}
	last, first := delay("small", "small199"), delay("small", "small0")
	if all := delay("small", "k"); last < all/3 || last > all/2+1 || first >= last {
		t.Errorf("the last one waits for %d s, the first one for %d, and a new one for %d", last, first, all)
	}
}
