// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/mesh/pace"
)

// Turns is a loop whose writes are paced by because of whom they are. What a cluster brings along is written at once while there are
// places for it. When they are used up, the key waits for its turn: one after the other has it, with rests. So thousands of changes,
// which one member can cause with clusters that it invents, leave the API server half of its time, and those of another member have
// places beside them.
type Turns[K comparable] struct {
	reconcile func(context.Context, K) error
	now       *Loop[K]
	later     *Loop[K] // what waits for its turn

	mu   sync.Mutex
	busy map[K]bool // keys that are being reconciled; true if it is their turn
}

// NewTurns returns turns that do nothing before Run. name appears in the log.
func NewTurns[K comparable](name string, log *slog.Logger, reconcile func(context.Context, K) error) *Turns[K] {
	t := &Turns[K]{reconcile: reconcile, busy: map[K]bool{}}
	t.now = New(name, log, func(ctx context.Context, k K) error { return t.run(ctx, k, false) }).TrackAge()
	t.later = New(name+", in turn", log, func(ctx context.Context, k K) error { return t.run(ctx, k, true) }).TrackAge().Rest()
	return t
}

// Run reconciles with that many workers, and one for what waits for its turn, until ctx ends.
func (t *Turns[K]) Run(ctx context.Context, workers int) error {
	var tasks errgroup.Group
	tasks.Go(func() error { return t.now.Run(ctx, workers) })
	tasks.Go(func() error { return t.later.Run(ctx, 1) })
	return tasks.Wait()
}

// Add enqueues a key.
func (t *Turns[K]) Add(k K) { t.now.Add(k) }

// AddAfter enqueues a key after d, for what becomes true by waiting alone.
func (t *Turns[K]) AddAfter(k K, d time.Duration) { t.now.AddAfter(k, d) }

// Oldest is the longest time that a key has been waiting, be it for a worker or for its turn.
func (t *Turns[K]) Oldest(now time.Time) time.Duration {
	return max(t.now.Oldest(now), t.later.Oldest(now))
}

// ErrWaits is returned for what is not written now.
var ErrWaits = errors.New("it is not its turn")

// Write calls write for reconcile, which has this key and would write because of a cluster, if it is its turn or there is a place. If not,
// the error is ErrWaits, and the key is reconciled again when it is its turn, or when there are places again. A write that fails takes
// no place.
func (t *Turns[K]) Write(k K, clusterID string, places *pace.Budget, write func() error) error {
	t.mu.Lock()
	turn := t.busy[k]
	t.mu.Unlock()
	if turn {
		return write()
	}
	if taken, again := places.Take(clusterID); !taken {
		t.later.Add(k)
		t.now.AddAfter(k, again)
		return ErrWaits
	}
	err := write()
	if err != nil {
		places.Give(clusterID)
	}
	return err
}

// run reconciles a key, unless the other loop is about to.
func (t *Turns[K]) run(ctx context.Context, k K, turn bool) error {
	t.mu.Lock()
	_, busy := t.busy[k]
	if !busy {
		t.busy[k] = turn
	}
	t.mu.Unlock()
	if busy {
		of := t.now
		if turn {
			of = t.later
		}
		of.AddAfter(k, RetryFirst)
		return nil
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.busy, k)
	}()
	return t.reconcile(ctx, k)
}
