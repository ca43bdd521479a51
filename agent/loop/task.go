// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Task does one thing again whenever it is asked to, never twice at a time, and with back-off when it fails. It may be
// asked before Run and from any goroutine.
type Task struct {
	name string
	log  *slog.Logger
	do   func(context.Context) error
	wake chan struct{} // holds one

	mu  sync.Mutex
	due time.Time // when it is to be done next; zero for never
}

// NewTask returns a task that does nothing before Run. name is for the log.
func NewTask(name string, log *slog.Logger, do func(context.Context) error) *Task {
	return &Task{name: name, log: log, do: do, wake: make(chan struct{}, 1)}
}

// Again has the task done as soon as it is not under way.
func (t *Task) Again() { t.AgainAfter(0) }

// AgainAfter has the task done when d has passed, or earlier where it is due earlier: there is one time, and the earliest counts.
func (t *Task) AgainAfter(d time.Duration) {
	due := time.Now().Add(d)
	t.mu.Lock()
	if t.due.IsZero() || due.Before(t.due) {
		t.due = due
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Due is how long it is until the task is to be done; asked is false when nobody has asked for it.
func (t *Task) Due() (wait time.Duration, asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.due), !t.due.IsZero()
}

// Run does the task until ctx ends; then it returns, when what was under way has returned.
func (t *Task) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		wait, asked := t.next()
		if asked && wait <= 0 {
			failures = t.once(ctx, failures)
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

// next is like Due, and takes what is due: what is asked for from then on is another time.
func (t *Task) next() (wait time.Duration, asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait, asked = time.Until(t.due), !t.due.IsZero()
	if asked && wait <= 0 {
		t.due = time.Time{}
	}
	return wait, asked
}

// once does the task, and returns how often it has failed in succession.
func (t *Task) once(ctx context.Context, failures int) int {
	err := t.do(ctx)
	if err == nil || ctx.Err() != nil {
		return 0
	}
	if worthLogging(failures) {
		t.log.Warn("retrying", "task", t.name, "tries", failures+1, "error", err)
	}
	t.AgainAfter(min(RetryFirst<<min(failures, 20), RetryMost))
	return failures + 1
}

// worthLogging says that a failure is one to log: a lost race is part of normal work, and a line for each try would be
// too many.
func worthLogging(failures int) bool { return failures == 4 || failures%32 == 31 }

// pause is left after what writes whole Secrets, of up to a megabyte, because of what members say.
const pause = time.Second

// Unhurried makes do wait for a second after each time that it was done: what is asked for meanwhile is done at once
// after that. A member can tell of thousands of keys, one by one, and each version of a Secret takes room in etcd until
// it is compacted.
func Unhurried(do func(context.Context) error) func(context.Context) error {
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
