// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// The back-off of a key whose reconciliation failed: short at first, because most failures are lost races of writes,
// and with a maximum that is low enough to notice the end of an outage within seconds.
const (
	RetryFirst = 20 * time.Millisecond
	RetryMax   = 5 * time.Second
)

// Loop calls reconcile for each key that was added. A key is never reconciled twice at the same time, and again with
// back-off after an error. Keys may be added before Run and from any goroutine.
type Loop[K comparable] struct {
	name      string
	reconcile func(context.Context, K) error
	log       *slog.Logger

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[K] // of Run, which ends its goroutines; nil before
	early map[K]time.Time                         // what was added before Run, and when it is due
}

// New returns a loop that does nothing before Run. name appears in the log.
func New[K comparable](name string, log *slog.Logger, reconcile func(context.Context, K) error) *Loop[K] {
	return &Loop[K]{name: name, reconcile: reconcile, log: log, early: map[K]time.Time{}}
}

// Add enqueues a key. A key that is being reconciled is reconciled once more.
func (l *Loop[K]) Add(key K) { l.AddAfter(key, 0) }

// Len is how many keys wait for a worker.
func (l *Loop[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue == nil {
		return len(l.early)
	}
	return l.queue.Len()
}

// AddAfter enqueues a key after d, for what becomes true by waiting alone.
func (l *Loop[K]) AddAfter(key K, d time.Duration) {
	l.mu.Lock()
	queue := l.queue
	if queue == nil {
		if due, added := l.early[key]; !added || time.Until(due) > d {
			l.early[key] = time.Now().Add(d)
		}
	}
	l.mu.Unlock()
	if queue != nil {
		queue.AddAfter(key, d)
	}
}

// open makes the queue.
func (l *Loop[K]) open() {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](RetryFirst, RetryMax)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	l.mu.Lock()
	early := l.early
	l.queue, l.early = queue, nil
	l.mu.Unlock()
	for key, due := range early {
		queue.AddAfter(key, time.Until(due))
	}
}

// Run reconciles with that many workers. It returns when ctx has ended and every call of reconcile has returned.
func (l *Loop[K]) Run(ctx context.Context, workers int) error {
	l.open()
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

// next reconciles one key, and returns false if there is none, since the loop ends.
func (l *Loop[K]) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	if err := l.reconcile(ctx, key); err != nil && ctx.Err() == nil {
		if n := l.queue.NumRequeues(key); shouldLog(n) {
			l.log.Warn("retrying", "loop", l.name, "key", key, "tries", n+1, "error", err)
		}
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	return true
}
