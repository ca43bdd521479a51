// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/mesh/pace"
)

// honestAlone gives the reserve to one cluster.
func honestAlone(total int, wants map[string]int) map[string]int {
	shares := map[string]int{}
	for id := range wants {
		if shares[id] = 0; id == "honest" {
			shares[id] = total
		}
	}
	return shares
}

// Of what one cluster brings, what there are places for is written at once, and the rest in turn, each once; when there are places again
// they are used, and one of another cluster waits for nothing.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, period, took, keys = 8, 10 * time.Second, 4 * time.Second, 40
		places := pace.NewBudget(most, most/4, period, honestAlone)
		var mu sync.Mutex
		at, busy, began := map[string]time.Duration{}, map[string]bool{}, time.Now()
		var turns *Turns[string]
		turns = NewTurns("test", NewPen(), slog.New(slog.DiscardHandler), func(_ context.Context, k string) error {
			mu.Lock()
			_, done := at[k]
			twice := busy[k]
			busy[k] = true
			mu.Unlock()
			defer func() { mu.Lock(); delete(busy, k); mu.Unlock() }()
			if twice {
				t.Errorf("%s is reconciled twice at a time", k)
			}
			if done {
				return nil
			}
			owner := "thief"
			if k == "honest" {
				owner = k
			}
			err := turns.Write(k, owner, places, func() error {
				mu.Lock()
				at[k] = time.Since(began)
				mu.Unlock()
				time.Sleep(took)
				return nil
			})
			if errors.Is(err, ErrWaits) {
				return nil
			}
			return err
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = turns.Run(ctx, 4) }()
		synctest.Wait()
		for n := range keys {
			turns.Add(fmt.Sprint(n))
		}
		time.Sleep(2 * took) // the places are used up
		turns.Add("honest")
		synctest.Wait()
		if _, ok := at["honest"]; !ok {
			t.Error("one of another cluster waits")
		}
		if oldest := turns.Oldest(time.Now()); oldest != 2*took {
			t.Errorf("the oldest has waited for %v, and that is told as %v", 2*took, oldest)
		}
		time.Sleep(period * keys / most)
		cancel()
		<-done
		now := 0
		for _, when := range at {
			if when < took {
				now++
			}
		}
		if len(at) != keys+1 || now > most+1 {
			t.Errorf("%d of %d are written, %d of them at once", len(at), keys+1, now)
		}
		if oldest := turns.Oldest(time.Now()); oldest != 0 {
			t.Errorf("when all is written, something has waited for %v", oldest)
		}
	})
}

// What waits grows old until it is written; a try that fails makes it no younger.
func TestOldestOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		turns := NewTurns("test", NewPen(), slog.New(slog.DiscardHandler), func(context.Context, string) error {
			if tries++; tries < 3 {
				return errors.New("not now")
			}
			return nil
		})
		turns.Add("a")
		time.Sleep(time.Minute)
		if age := turns.Oldest(time.Now()); age != time.Minute {
			t.Errorf("before it runs, age %s", age)
		}
		for want := range 3 {
			_ = turns.run(t.Context(), "a", turns.now, false)
			if age := turns.Oldest(time.Now()); (age == time.Minute) != (want < 2) {
				t.Errorf("after try %d, age %s", want+1, age)
			}
		}
	})
}

// While writes are so slow that places are not used up, what waits beyond them waits for its turn, and one of another cluster for a few
// writes.
func TestTurnsOfSlowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, took = 8, 20 * time.Second // two periods
		places := pace.NewBudget(most, most/4, took/2, honestAlone)
		var mu sync.Mutex
		written := map[string]bool{}
		var turns *Turns[string]
		turns = NewTurns("test", NewPen(), slog.New(slog.DiscardHandler), func(_ context.Context, k string) error {
			owner := "thief"
			if k == "honest" {
				owner = k
			}
			_ = turns.Write(k, owner, places, func() error {
				time.Sleep(took)
				mu.Lock()
				defer mu.Unlock()
				written[k] = true
				return nil
			})
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = turns.Run(ctx, 4) }()
		synctest.Wait()
		for n := range 1000 {
			turns.Add(fmt.Sprint(n))
		}
		turns.Add("honest")
		time.Sleep(took * (2 + most/4 + 1))
		mu.Lock()
		if !written["honest"] {
			t.Errorf("one of another cluster waits for more than %d writes, of which %d are done", most, len(written))
		}
		mu.Unlock()
		cancel()
		<-done
	})
}

// A write to an API server that cannot be asked takes no place, however often it is tried; one that it refuses does.
func TestFailureTakesNoPlace(t *testing.T) {
	places := pace.NewBudget(1, 1, time.Hour, func(int, map[string]int) map[string]int { return nil })
	turns := NewTurns("test", NewPen(), slog.New(slog.DiscardHandler), func(context.Context, string) error { return nil })
	fails := errors.New("the API server is down")
	for range 3 {
		if err := turns.Write("k", "c", places, func() error { return fails }); !errors.Is(err, fails) {
			t.Fatal(err)
		}
	}
	if err := turns.Write("k", "c", places, func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := turns.Write("other", "c", places, func() error { return nil }); !errors.Is(err, ErrWaits) {
		t.Errorf("there was one place, and then: %v", err)
	}
	places = pace.NewBudget(1, 1, time.Hour, func(int, map[string]int) map[string]int { return nil })
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "k", nil)
	for _, want := range []error{invalid, ErrWaits} {
		if err := turns.Write("k", "c", places, func() error { return invalid }); !errors.Is(err, want) {
			t.Errorf("a write that is refused: %v, want %v", err, want)
		}
	}
}
