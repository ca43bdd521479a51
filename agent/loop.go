// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Back-off of a key whose reconciliation failed: quick at first, since most failures are a write that lost
// a race, and capped low enough that the end of an outage is noticed within seconds.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 5 * time.Second
)

// loop calls reconcile for every key that was added, one call per key at a time, again with back-off when
// it fails. Keys may be added before run and from any goroutine.
type loop[K comparable] struct {
	name      string
	queue     workqueue.TypedRateLimitingInterface[K]
	reconcile func(context.Context, K) error
	log       *slog.Logger

	mu      sync.Mutex
	waiting map[K]time.Time // since when a key waits to be reconciled; nil where nobody asks
}

func newLoop[K comparable](name string, log *slog.Logger, reconcile func(context.Context, K) error) *loop[K] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](retryFirst, retryMost)
	return &loop[K]{name: name, queue: workqueue.NewTypedRateLimitingQueue(limiter), reconcile: reconcile, log: log}
}

func (l *loop[K]) add(key K) {
	l.mu.Lock()
	if _, waits := l.waiting[key]; l.waiting != nil && !waits {
		l.waiting[key] = time.Now()
	}
	l.mu.Unlock()
	l.queue.Add(key)
}

// oldest is how long the key has waited that has waited the longest.
func (l *loop[K]) oldest(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest time.Duration
	for _, since := range l.waiting {
		longest = max(longest, now.Sub(since))
	}
	return longest
}

// addAfter looks at the key again when d has passed, for what becomes true by waiting alone.
func (l *loop[K]) addAfter(key K, d time.Duration) { l.queue.AddAfter(key, d) }

// run blocks until ctx ends and the reconciliations under way have returned.
func (l *loop[K]) run(ctx context.Context, workers int) error {
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	wg.Wait()
	return nil
}

func (l *loop[K]) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	l.mu.Lock()
	since, waits := l.waiting[key]
	delete(l.waiting, key) // what is added from here on is another look
	l.mu.Unlock()
	err := l.reconcile(ctx, key)
	if err != nil && waits {
		l.mu.Lock()
		l.waiting[key] = since
		l.mu.Unlock()
	}
	if err == nil || ctx.Err() != nil {
		l.queue.Forget(key)
		return true
	}
	// A lost race is part of normal work; what keeps failing is worth a line, but not one per try.
	if n := l.queue.NumRequeues(key); n == 4 || n%32 == 31 {
		l.log.Warn("retrying", "loop", l.name, "key", key, "tries", n+1, "error", err)
	}
	l.queue.AddRateLimited(key)
	return true
}
