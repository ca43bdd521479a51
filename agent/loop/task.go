// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Task does one thing whenever it is triggered, never twice at the same time, and again with back-off after an error.
// It may be triggered before Run and from any goroutine.
type Task struct {
	name string
	log  *slog.Logger
	do   func(context.Context) error
	wake chan struct{} // holds one

	mu  sync.Mutex
	due time.Time // when it is done next; zero for never
}

// NewTask returns a task that does nothing before Run. name appears in the log.
func NewTask(name string, log *slog.Logger, do func(context.Context) error) *Task {
	return &Task{name: name, log: log, do: do, wake: make(chan struct{}, 1)}
}

// Trigger makes the task run as soon as it is not running.
func (t *Task) Trigger() { t.TriggerAfter(0) }

// TriggerAfter makes the task run after d. A task has one due time, and the earliest counts.
func (t *Task) TriggerAfter(d time.Duration) {
	due := time.Now().Add(d)
	t.mu.Lock()
	if t.due.IsZero() || due.Before(t.due) {
		t.due = due
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // Run wakes up anyway
	}
}

// Due is how long it is until the task runs; asked is false when it was not triggered.
func (t *Task) Due() (wait time.Duration, asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.due), !t.due.IsZero()
}

// Run runs the task until ctx ends. It returns when a run in progress has returned.
func (t *Task) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		wait, asked := t.next()
		if asked && wait <= 0 {
			failures = t.runOnce(ctx, failures)
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		timer.Stop()
		var later <-chan time.Time
		if asked {
			timer.Reset(wait)
			later = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		case <-later:
		}
	}
}

// next is like Due, and clears a due time that has come: a trigger from here on makes the task run once more.
func (t *Task) next() (wait time.Duration, asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait, asked = time.Until(t.due), !t.due.IsZero()
	if asked && wait <= 0 {
		t.due = time.Time{}
	}
	return wait, asked
}

// runOnce runs the task, and returns how often it has failed in succession.
func (t *Task) runOnce(ctx context.Context, failures int) int {
	err := t.do(ctx)
	if err == nil || ctx.Err() != nil {
		return 0
	}
	if shouldLog(failures) {
		t.log.Warn("retrying", "task", t.name, "tries", failures+1, "error", err)
	}
	t.TriggerAfter(min(RetryFirst<<min(failures, 20), RetryMax))
	return failures + 1
}

// shouldLog reports whether a failure is logged: the fifth one, and then every 32nd. A lost race is normal, and a line
// for each try would be too much.
func shouldLog(failures int) bool { return failures == 4 || failures%32 == 31 }

// pause is the wait of WithPause.
const pause = time.Second

// WithPause returns do with a wait of a second after each run. It is for tasks that write whole Secrets, of up to a
// megabyte, because of messages from members: a member can send thousands of them one by one, and each version of a
// Secret takes room in etcd until it is compacted.
func WithPause(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := do(ctx)
		Sleep(ctx, pause)
		return err
	}
}

// Sleep returns when d has passed, or ctx has ended.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
