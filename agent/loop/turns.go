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

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/mesh/pace"
)

// Turns is a loop whose writes are paced by because of whom they are. What a cluster brings along is written at once while there are
// places for it. When they are used up, the key waits for its turn: one after the other has it, with rests (see Pen). So thousands of
// changes, which one member can cause with clusters that it invents, leave the API server most of its time, and those of another member
// have places beside them.
type Turns[K comparable] struct {
	reconcile func(context.Context, K) error
	now       *Loop[K]
	later     *Loop[K] // what waits for its turn

	mu      sync.Mutex
	busy    map[K]*try
	waiting map[K]time.Time // when a key was added
}

// try is what becomes of a key that is being reconciled.
type try struct {
	turn  bool // it has its turn
	waits bool // something was not written
}

// placesPeriod is for how long there are so many places. They are few, since without a flood what finds none has its turn at once; and it
// is long, so that a part of them is one at least, where many share them.
const placesPeriod = time.Minute

// NewPlaces returns so many places in each minute for Turns.Write, and as many beside them that are shared by who admitted whom.
func NewPlaces(total int, share pace.Share) *pace.Budget {
	return pace.NewBudget(total, total, placesPeriod, share)
}

// NewTurns returns turns that do nothing before Run. name appears in the log. What has its turn is written with a pen, which all turns of an
// agent share; nil is one of its own.
func NewTurns[K comparable](name string, pen *Pen, log *slog.Logger, reconcile func(context.Context, K) error) *Turns[K] {
	if pen == nil {
		pen = NewPen()
	}
	t := &Turns[K]{reconcile: reconcile, busy: map[K]*try{}, waiting: map[K]time.Time{}}
	t.now = New(name, log, func(ctx context.Context, k K) error { return t.run(ctx, k, t.now, false) })
	t.later = New(name+", in turn", log, func(ctx context.Context, k K) error { return t.run(ctx, k, t.later, true) })
	t.later.pen = pen
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
func (t *Turns[K]) Add(k K) {
	t.mu.Lock()
	if _, waits := t.waiting[k]; !waits {
		t.waiting[k] = time.Now()
	}
	t.mu.Unlock()
	t.now.Add(k)
}

// AddAfter enqueues a key after d, for what becomes true by waiting alone.
func (t *Turns[K]) AddAfter(k K, d time.Duration) { t.now.AddAfter(k, d) }

// Oldest is the longest time that a key has been waiting: for a worker, for its turn, or after an error.
func (t *Turns[K]) Oldest(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var longest time.Duration
	for _, since := range t.waiting {
		longest = max(longest, now.Sub(since))
	}
	return longest
}

// ErrWaits is returned for what is not written now.
var ErrWaits = errors.New("it is not its turn")

// Write calls write for reconcile, which has this key and would write because of a cluster, if it is its turn or there is a place. If not,
// the error is ErrWaits, and the key is reconciled again when it is its turn, or when there are places again. A write that the API
// server could not answer takes no place; one that it refuses does, since a member can have it refuse thousands.
func (t *Turns[K]) Write(k K, clusterID string, places *pace.Budget, write func() error) error {
	t.mu.Lock()
	now := t.busy[k]
	t.mu.Unlock()
	if now != nil && now.turn {
		return write()
	}
	// Where writes are slow, places are not what bounds how many wait for them.
	taken, again := places.Take(clusterID, t.now.Len() > places.Total())
	if !taken {
		if now != nil {
			now.waits = true
		}
		t.later.Add(k)
		t.now.AddAfter(k, again)
		return ErrWaits
	}
	err := write()
	if err != nil && !refused(err) {
		places.Give(clusterID)
	}
	return err
}

// refused tells an answer of the API server from none.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests && code != http.StatusUnauthorized
}

// run reconciles a key, unless the other loop is about to.
func (t *Turns[K]) run(ctx context.Context, k K, of *Loop[K], turn bool) error {
	t.mu.Lock()
	if t.busy[k] != nil {
		t.mu.Unlock()
		of.AddAfter(k, RetryFirst)
		return nil
	}
	now := &try{turn: turn}
	t.busy[k] = now
	since, added := t.waiting[k]
	delete(t.waiting, k) // one that is added from here on is reconciled again
	t.mu.Unlock()
	err := t.reconcile(ctx, k)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, k)
	if added && (err != nil || now.waits) {
		t.waiting[k] = since
	}
	return err
}
