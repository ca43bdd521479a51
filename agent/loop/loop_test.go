// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// A key that waits is left to who adds it again. One that is refused is tried often for some seconds, and then once a minute; what fails
// otherwise is tried every few seconds, also after it was refused.
func TestLoopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		answers := map[string]error{
			"waits":   fmt.Errorf("now: %w", ErrWaits),
			"refused": fmt.Errorf("now: %w", apierrors.NewForbidden(schema.GroupResource{}, "x", nil)),
			"down":    errors.New("connection refused"),
		}
		var mu sync.Mutex
		tries := map[string]int{}
		l := New("test", slog.New(slog.DiscardHandler), func(_ context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			tries[key]++
			return answers[key]
		})
		done := make(chan struct{})
		go func() { defer close(done); _ = l.Run(ctx, 1) }()
		during := func(d time.Duration) map[string]int {
			mu.Lock()
			clear(tries)
			mu.Unlock()
			time.Sleep(d)
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(tries)
		}
		for key := range answers {
			l.Add(key)
		}
		if n := during(time.Minute); n["waits"] != 1 || n["refused"] < 8 || n["refused"] > refusedTries+1 || n["down"] < 15 {
			t.Errorf("in the first minute: %v", n)
		}
		if n := during(10 * time.Minute); n["waits"] != 0 || n["refused"] < 9 || n["refused"] > 11 || n["down"] < 115 {
			t.Errorf("in ten minutes: %v", n)
		}
		mu.Lock()
		answers["refused"] = answers["down"]
		mu.Unlock()
		if n := during(2 * time.Minute); n["refused"] < 10 {
			t.Errorf("when it is not refused any more: %v", n)
		}
		cancel()
		<-done
	})
}

// Refused tells what will be refused again from what may be let in.
func TestRefused(t *testing.T) {
	t.Parallel()
	gr, cause := schema.GroupResource{Resource: "clusters"}, errors.New("x")
	for err, want := range map[error]bool{
		apierrors.NewInvalid(schema.GroupKind{}, "x", nil): true, apierrors.NewForbidden(gr, "x", cause): true, apierrors.NewNotFound(gr, "x"): true,
		apierrors.NewConflict(gr, "x", cause): false, apierrors.NewUnauthorized("x"): false, apierrors.NewTooManyRequests("x", 1): false,
		apierrors.NewInternalError(cause): false, apierrors.NewServiceUnavailable("x"): false, cause: false,
	} {
		if got := Refused(fmt.Errorf("write: %w", err)); got != want {
			t.Errorf("%v is refused: %v", err, got)
		}
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
