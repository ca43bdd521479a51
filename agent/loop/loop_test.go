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
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
