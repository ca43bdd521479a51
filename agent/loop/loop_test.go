// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A worker that rests does so for twice as long as each key took, up to a second, and not while few keys wait.
func TestLoopRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, took := time.Now(), map[int]time.Duration{0: time.Second / 4, 1: 3 * time.Second, 3: time.Second, fewWait + 3: time.Second}
		var at []time.Duration
		l := New("test", slog.New(slog.DiscardHandler), func(_ context.Context, key int) error {
			at = append(at, time.Since(began))
			time.Sleep(took[key])
			return nil
		}).Rest(NewPen())
		done := make(chan struct{})
		go func() { defer close(done); _ = l.Run(ctx, 1) }()
		synctest.Wait()
		for key := range fewWait + 5 {
			l.Add(key)
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		want := []time.Duration{0, 3 * time.Second / 4, 19 * time.Second / 4, 19 * time.Second / 4, 27 * time.Second / 4}
		if got := at[:5]; !slices.Equal(got, want) {
			t.Errorf("while many wait, reconciled at %v, want %v", got, want)
		}
		if got, want := at[fewWait+4], 31*time.Second/4; got != want {
			t.Errorf("the last one waits until %v, want %v", got, want)
		}
	})
}

// The more keys wait, the longer it rests.
func TestLoopRestsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, last := time.Now(), time.Duration(0)
		const keys = 4 * manyWait
		l := New("test", slog.New(slog.DiscardHandler), func(context.Context, int) error {
			last = time.Since(began)
			time.Sleep(time.Millisecond)
			return nil
		}).Rest(NewPen())
		done := make(chan struct{})
		go func() { defer close(done); _ = l.Run(ctx, 1) }()
		synctest.Wait()
		for key := range keys {
			l.Add(key)
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		// 1,024 with a rest of five, four, three and two milliseconds, and few with none.
		want := manyWait * (6 + 5 + 4 + 3) * time.Millisecond
		if off := last - want; off < -time.Second/4 || off > time.Second/4 {
			t.Errorf("the last one waits until %v, want about %v", last, want)
		}
	})
}

// A key is reconciled by one worker at a time and again when that fails, and the loop ends with its context.
func TestLoopRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	tries, busy := map[string]int{}, map[string]bool{}
	l := New("test", slog.New(slog.DiscardHandler), func(_ context.Context, key string) error {
		mu.Lock()
		tries[key]++
		n, twice := tries[key], busy[key]
		busy[key] = true
		done := tries["a"] >= 3 && tries["b"] >= 3
		mu.Unlock()
		if twice {
			t.Errorf("%s is reconciled twice at a time", key)
		}
		if done {
			cancel()
		}
		mu.Lock()
		defer mu.Unlock()
		busy[key] = false
		if n < 3 {
			return errors.New("not now")
		}
		return nil
	})
	l.Add("a")
	l.AddAfter("b", time.Millisecond)
	if err := l.Run(ctx, 4); err != nil {
		t.Error(err)
	}
	if tries["a"] != 3 || tries["b"] != 3 {
		t.Errorf("tries: %v", tries)
	}
}

// A loop of a start that failed leaves nothing behind, and what is added before Run is done when it is due.
func TestLoopBeforeRun(t *testing.T) {
	New[string]("never runs", slog.New(slog.DiscardHandler), nil).Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	var done []string
	l := New("test", slog.New(slog.DiscardHandler), func(_ context.Context, key string) error {
		if done = append(done, key); key == "later" {
			cancel()
		}
		return nil
	})
	l.AddAfter("later", 20*time.Millisecond)
	l.AddAfter("now", time.Hour)
	l.Add("now")
	if err := l.Run(ctx, 1); err != nil || !slices.Equal(done, []string{"now", "later"}) {
		t.Errorf("done: %v, %v", done, err)
	}
}
