// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

// Keys is the queue. What ends in Locked is called with the lock of the engine held.
type Keys struct {
	workqueue.TypedDelayingInterface[place.Key] // lives from Open to ShutDown

	lines   func(k place.Key) []turns.Path
	pending *table[state]
	byKind  map[schema.GroupKind]int // how many of pending
	waiting *waiting
}

// state is where a pending key is.
type state int

const (
	queued  state = iota + 1 // it waits for a worker
	parked                   // it waits elsewhere
	working                  // a worker has it
)

// New returns one that is not open. lines are those in which a key may wait, which is asked with the lock of the engine held.
func New(lines func(k place.Key) []turns.Path) Keys {
	return Keys{lines: lines, pending: &table[state]{}, byKind: map[schema.GroupKind]int{}, waiting: &waiting{}}
}

// Open makes the queue ready for use.
func (q *Keys) Open() {
	q.TypedDelayingInterface = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[place.Key]{
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[place.Key]{Queue: q.waiting}),
	})
}

// EnqueueLocked puts a key up for a decision. If it waits already, it stays where it is.
func (q *Keys) EnqueueLocked(k place.Key) {
	if at, _ := q.pending.get(k); at == 0 || at == working {
		q.enqueueLocked(k, q.lines(k))
	}
}

// EnqueueForLocked is EnqueueLocked in the shortest of some lines: those of whom it is because of. So nobody has a key wait behind others that is put up for somebody else, too.
func (q *Keys) EnqueueForLocked(k place.Key, lines func() []turns.Path) {
	switch at, _ := q.pending.get(k); at {
	case queued:
		q.waiting.move(k, lines)
	case parked:
	default:
		q.enqueueLocked(k, lines())
	}
}

func (q *Keys) enqueueLocked(k place.Key, lines []turns.Path) {
	q.setLocked(k, queued)
	q.waiting.sort(k, lines)
	q.Add(k)
}

func (q *Keys) setLocked(k place.Key, to state) {
	if _, has := q.pending.get(k); !has {
		q.byKind[k.GroupKind]++
	}
	q.pending.set(k, to)
}

// ParkLocked lets a key count as pending that waits for its turn elsewhere, once its turn here has come. Until UnparkLocked it is not put up.
func (q *Keys) ParkLocked(k place.Key) {
	q.setLocked(k, parked)
	q.waiting.forget(k)
}

// UnparkLocked puts a parked key up, before all others if next.
func (q *Keys) UnparkLocked(k place.Key, next bool) {
	q.setLocked(k, queued)
	if !next {
		q.waiting.sort(k, q.lines(k))
	}
	q.Add(k)
}

// EnqueueAfter puts a key up after a delay; it does not count as pending meanwhile.
func (q *Keys) EnqueueAfter(k place.Key, d time.Duration) { q.AddAfter(k, d) }

// PendingLocked says that keys of some of the kinds are pending.
func (q *Keys) PendingLocked(kinds []schema.GroupKind) bool {
	return slices.ContainsFunc(kinds, func(gk schema.GroupKind) bool { return q.byKind[gk] > 0 })
}

// InTurnLocked says that it is the turn of a key which a worker took. Otherwise its delay has ended, and others wait: then it waits in its line.
func (q *Keys) InTurnLocked(k place.Key) bool {
	if q.waiting.isNext(k) {
		return true
	}
	q.waiting.sort(k, q.lines(k))
	q.Add(k) // it is put there once the worker is done with it
	return false
}

// TakenLocked and DoneLocked bracket the work on a key.
func (q *Keys) TakenLocked(k place.Key) { q.setLocked(k, working) }

// DoneLocked returns true when no key of the kind is pending any more.
func (q *Keys) DoneLocked(k place.Key) bool {
	if at, _ := q.pending.get(k); at != working {
		return false // put up again meanwhile
	}
	q.pending.delete(k)
	q.byKind[k.GroupKind]--
	if q.byKind[k.GroupKind] > 0 {
		return false
	}
	delete(q.byKind, k.GroupKind)
	return true
}
