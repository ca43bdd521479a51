// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

func succeeds() error { return nil }

// writer is a loop that writes the newest content of each key.
type writer struct {
	budget *budget.Budget[string]
	asks   bool // before it looks at the content of what waits

	mu               sync.Mutex
	content, written map[string]int
	writes, looks    int
}

func (w *writer) reconcile(k string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asks && w.budget.StillWaits(k[:1], k) {
		return
	}
	if w.written[k] == w.content[k] {
		w.budget.Settle(k)
		return
	}
	w.looks++
	if w.budget.Write(k[:1], k, bytes(10), succeeds) == nil {
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

// A loop writes the newest content of every key, as fast as the budget of its cluster allows; another cluster does not wait. If it asks before
// it looks, it looks at little more than it writes.
func TestLoopWithABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testLoopWithABudget(t, false) })
	synctest.Test(t, func(t *testing.T) { testLoopWithABudget(t, true) })
}

func testLoopWithABudget(t *testing.T, asks bool) {
	w := &writer{asks: asks, content: map[string]int{}, written: map[string]int{}}
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
	if some := w.looks <= 2*w.writes+8; some != asks { // each looks as it comes into the line, too
		t.Errorf("it asks: %v, and looked %d times for %d writes", asks, w.looks, w.writes)
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
}

// A write that the API server does not answer uses up nothing, however often it is tried, and what waits for one does not wait for longer;
// one that it refuses is as any other.
func TestWritesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := map[string]time.Time{}
		b := budget.New(quota.NewLimits(100, 10, 5, 1), func(k string, after time.Duration) {
			told[k] = time.Now().Add(after)
		})
		for _, down := range []error{errors.New("connection refused"), apierrors.NewInternalError(errors.New("no leader")), apierrors.NewTooManyRequests("", 1), apierrors.NewConflict(schema.GroupResource{}, "tried", nil)} {
			for n := range 100 {
				if err := b.Write("a", "tried", bytes(90), func() error { return down }); !errors.Is(err, down) {
					t.Fatalf("try %d of what fails with %q: %v", n, down, err)
				}
			}
		}
		_ = b.Write("a", "tried", bytes(1100), func() error {
			if err := b.Write("a", "next", bytes(10), succeeds); !errors.Is(err, loop.ErrWaits) {
				t.Fatalf("nothing is left, and it does not wait: %v", err)
			}
			return errors.New("connection refused")
		})
		if !told["next"].Equal(time.Now()) {
			t.Errorf("it waits for %s when all is there", time.Until(told["next"]))
		}
		invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "next", nil)
		if err := b.Write("a", "next", bytes(100), func() error { return invalid }); !apierrors.IsInvalid(err) {
			t.Error(err)
		}
		if err := b.Write("a", "more", bytes(1), succeeds); !errors.Is(err, loop.ErrWaits) {
			t.Errorf("more was given back than was taken, or what is refused costs nothing: %v", err)
		}
	})
}

// How large an object is, which may take long to tell, is asked only when it is written.
func TestSizeIsNotAskedOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(quota.NewLimits(100, 10, 5, 1), func(string, time.Duration) {})
		asked := 0
		size := func() int {
			asked++
			return 200
		}
		for range 100 {
			_ = b.Write("a", "k", size, succeeds)
		}
		if asked != 1 {
			t.Errorf("asked %d times for one write", asked)
		}
		if err := b.Write("b", "nothing", nil, succeeds); err != nil {
			t.Error(err)
		}
	})
}

func TestSizeOf(t *testing.T) {
	t.Parallel()
	if n := budget.SizeOf(map[string]string{"a": "b"}); n != len(`{"a":"b"}`) {
		t.Errorf("%d bytes", n)
	}
}

func bytes(n int) func() int { return func() int { return n } }
