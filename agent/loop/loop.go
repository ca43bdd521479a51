// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// The back-off of a key whose reconciliation failed: short at first, because most failures are lost races of writes,
// and with a maximum that is low enough to notice the end of an outage within seconds.
const (
	RetryFirst = 20 * time.Millisecond
	RetryMax   = 5 * time.Second
)

// ErrWaits is returned by reconcile for a key that is neither done nor has failed: somebody adds it again.
var ErrWaits = errors.New("it waits")

// What the API server has refused so often, within some ten seconds, it will refuse again until a person changes something: then the wait is
// longer.
const refusedTries, refusedPause = 10, time.Minute

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

// Refused says that the API server refuses a write for what it is, or for who writes: not because it is busy, as nobody is let in, or
// since the object has changed.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// next reconciles one key, and returns false if there is none, since the loop ends.
func (l *Loop[K]) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	err := l.reconcile(ctx, key)
	if errors.Is(err, ErrWaits) {
		return true
	}
	if err != nil && ctx.Err() == nil {
		n := l.queue.NumRequeues(key)
		if shouldLog(n) {
			l.log.Warn("retrying", "loop", l.name, "key", key, "tries", n+1, "error", err)
		}
		if n >= refusedTries && Refused(err) {
			l.queue.AddAfter(key, refusedPause)
			return true
		}
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	return true
}
