// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// writer is a loop that writes the newest content of each key.
type writer struct {
	budget *budget.Budget[string]

	mu               sync.Mutex
	content, written map[string]int
	writes           int
}

func (w *writer) reconcile(k string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written[k] == w.content[k] {
		w.budget.Settle(k)
	} else if w.budget.Charge(k[:1], k, 10) {
		w.written[k] = w.content[k]
		w.writes++
	}
}

func (w *writer) change(k string, content int) {
	w.mu.Lock()
	w.content[k] = content
	w.mu.Unlock()
	w.reconcile(k)
}

// A loop writes the newest content of every key, as fast as the budget of its cluster allows; another cluster does not wait.
func TestLoopWithABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{content: map[string]int{}, written: map[string]int{}}
		w.budget = budget.New(quota.NewLimits(100, 10, 1000, 1000), func(k string, after time.Duration) {
			time.AfterFunc(after, func() { w.reconcile(k) })
		})
		began := time.Now()
		for n := range 1000 {
			for _, k := range []string{"a1", "a2", "a3", "a4"} {
				w.change(k, n+1)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if most := 10 + int(time.Since(began).Seconds()) + 1; w.writes > most || w.writes < most-3 {
			t.Errorf("%d writes of 10 bytes in %s, want %d", w.writes, time.Since(began), most)
		}
		if w.budget.Waiting() == 0 {
			t.Error("nothing waits")
		}
		if w.change("b1", 1); w.written["b1"] != 1 {
			t.Error("another cluster waits")
		}
		w.change("a2", w.written["a2"]) // it is taken back
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for k, n := range w.content {
			if w.written[k] != n {
				t.Errorf("%s has content %d of %d", k, w.written[k], n)
			}
		}
		if n := w.budget.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// A key that is refused again and again uses up nothing, and what waits for a write that fails does not wait for longer.
func TestRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := map[string]time.Time{}
		b := budget.New(quota.NewLimits(100, 10, 5, 1), func(k string, after time.Duration) {
			told[k] = time.Now().Add(after)
		})
		for n := range 100 {
			if !b.Charge("a", "refused", 90) {
				t.Fatalf("try %d waits", n)
			}
			b.Refund("a", 90)
		}
		b.Charge("a", "tried", 1100)
		if b.Charge("a", "next", 10) {
			t.Fatal("nothing is left, and it does not wait")
		}
		b.Refund("a", 1100)
		if !told["next"].Equal(time.Now()) || !b.Charge("a", "next", 100) {
			t.Errorf("it waits for %s when all is there", time.Until(told["next"]))
		}
		if b.Charge("a", "more", 1) {
			t.Error("more was given back than was taken")
		}
	})
}

func TestSizeOf(t *testing.T) {
	t.Parallel()
	if n := budget.SizeOf(map[string]string{"a": "b"}); n != len(`{"a":"b"}`) {
		t.Errorf("%d bytes", n)
	}
}
