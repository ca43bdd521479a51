// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// inTask runs a task in a bubble of virtual time, and test beside it. The task ends with the test.
func inTask(t *testing.T, log *slog.Logger, do func(context.Context) error, test func(*Task)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		task := NewTask("test", log, do)
		ended := make(chan error)
		go func() { ended <- task.Run(ctx) }()
		synctest.Wait()
		test(task)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

var quiet = slog.New(slog.DiscardHandler)

// TestTaskAskedWhileItIsDone: what is asked for during a run is done once more, however often that was asked.
func TestTaskAskedWhileItIsDone(t *testing.T) {
	runs := 0
	inTask(t, quiet, func(ctx context.Context) error {
		runs++
		Sleep(ctx, time.Second)
		return nil
	}, func(task *Task) {
		if runs != 0 {
			t.Errorf("%d runs that nobody asked for", runs)
		}
		task.Trigger()
		synctest.Wait()
		for range 3 {
			task.Trigger()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
	})
}

// TestTaskAskedBeforeRun is not lost.
func TestTaskAskedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		task := NewTask("test", quiet, func(context.Context) error {
			cancel()
			return nil
		})
		task.Trigger()
		if err := task.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestTaskBacksOff: what fails is done again, ever less often but soon enough, and logged now and then; what succeeds ends
// that.
func TestTaskBacksOff(t *testing.T) {
	var log strings.Builder
	var times []time.Time
	failures := 20
	inTask(t, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
		times = append(times, time.Now())
		if failures--; failures < 0 {
			return nil
		}
		return errors.New("not now")
	}, func(task *Task) {
		task.Trigger()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(times) != 21 {
			t.Fatalf("done %d times", len(times))
		}
		if first, last := times[1].Sub(times[0]), times[20].Sub(times[19]); first != RetryFirst || last != RetryMax {
			t.Errorf("the pauses are from %v to %v", first, last)
		}
		if n := strings.Count(log.String(), "retrying"); n != 1 || !strings.Contains(log.String(), "not now") {
			t.Errorf("the log has %d lines: %s", n, &log)
		}
		failures = 1
		task.Trigger()
		synctest.Wait()
		time.Sleep(RetryFirst)
		synctest.Wait()
		if len(times) != 23 {
			t.Errorf("after a success a failure is not tried again at once: %d", len(times))
		}
	})
}

// TestTheEarliestTimeCounts: whoever asks for later takes nothing from who asked for sooner.
func TestTheEarliestTimeCounts(t *testing.T) {
	var times []time.Duration
	began := time.Time{}
	inTask(t, quiet, func(context.Context) error {
		times = append(times, time.Since(began))
		return nil
	}, func(task *Task) {
		began = time.Now()
		task.TriggerAfter(time.Hour)
		task.TriggerAfter(time.Minute)
		task.TriggerAfter(2 * time.Hour)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		task.TriggerAfter(time.Hour)
		synctest.Wait()
		task.Trigger()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(times) != 2 || times[0] != time.Minute || times[1] != 3*time.Hour {
			t.Errorf("done after %v", times)
		}
	})
}

// TestTaskEndsWithItsContext: what is under way hears of it, and no failure of it is tried again or logged.
func TestTaskEndsWithItsContext(t *testing.T) {
	var log strings.Builder
	runs := 0
	inTask(t, slog.New(slog.NewTextHandler(&log, nil)), func(ctx context.Context) error {
		runs++
		<-ctx.Done()
		return ctx.Err()
	}, func(task *Task) {
		task.Trigger()
		synctest.Wait()
	})
	if runs != 1 || log.Len() > 0 {
		t.Errorf("%d runs, log %s", runs, &log)
	}
}

// TestWithPause: what a flood of changes asks for is done once a second, and the last of them is not lost.
func TestWithPause(t *testing.T) {
	const flood = 2000
	var asked, seen atomic.Int32
	runs := 0
	inTask(t, quiet, WithPause(func(context.Context) error {
		runs++
		seen.Store(asked.Load())
		return nil
	}), func(task *Task) {
		for range flood {
			asked.Add(1)
			task.Trigger()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs > 4 || seen.Load() != flood {
			t.Errorf("%d runs, the last of which saw %d of %d", runs, seen.Load(), flood)
		}
	})
}

// TestWithPauseReturnsTheError, and of the end at once.
func TestWithPauseReturnsTheError(t *testing.T) {
	failed := errors.New("not now")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WithPause(func(context.Context) error { return failed })(ctx); !errors.Is(err, failed) {
		t.Error(err)
	}
}
