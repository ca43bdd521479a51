// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/roster-mesh/roster/syncrules/engine/lanes"
)

// keyQueue is the keys of copies that are to be decided on. Engine.mu guards its maps.
type keyQueue struct {
	workqueue.TypedDelayingInterface[Key] // lives as long as Run

	pending map[Key]bool             // keys in the queue (false) or being worked on (true)
	byKind  map[schema.GroupKind]int // how many of pending
	early   map[Key]earlyEvent       // of the keys being worked on
	lanes   *lanes.Lanes
}

func newKeyQueue(workers int) keyQueue {
	return keyQueue{pending: map[Key]bool{}, byKind: map[schema.GroupKind]int{}, early: map[Key]earlyEvent{}, lanes: lanes.New(workers)}
}

// open makes the queue ready for use.
func (q *keyQueue) open() { q.TypedDelayingInterface = workqueue.NewTypedDelayingQueue[Key]() }

// enqueueLocked puts a key up for a decision.
func (q *keyQueue) enqueueLocked(k Key) {
	if busy, ok := q.pending[k]; !ok || busy {
		if !ok {
			q.byKind[k.GroupKind]++
		}
		q.pending[k] = false
	}
	q.Add(k)
}

// parkLocked lets a key count as pending that waits for its turn in lanes.
func (q *keyQueue) parkLocked(k Key) {
	if _, ok := q.pending[k]; !ok {
		q.byKind[k.GroupKind]++
		q.pending[k] = false
	}
}

// enqueueAfter is enqueue with a delay; the key does not count as pending meanwhile.
func (q *keyQueue) enqueueAfter(k Key, d time.Duration) { q.AddAfter(k, d) }

// pendingOfLocked says that copies of the rule may be among the pending keys.
func (q *keyQueue) pendingOfLocked(r *rule) bool {
	return slices.ContainsFunc(r.kinds, func(gk schema.GroupKind) bool { return q.byKind[gk] > 0 })
}

// takenLocked and doneLocked bracket the work on a key.
func (q *keyQueue) takenLocked(k Key) {
	if _, ok := q.pending[k]; !ok {
		q.byKind[k.GroupKind]++
	}
	q.pending[k], q.early[k] = true, earlyEvent{}
}

// doneLocked returns true when no key of the kind is pending any more.
func (q *keyQueue) doneLocked(k Key) bool {
	if !q.pending[k] {
		return false // put up again meanwhile
	}
	delete(q.pending, k)
	q.byKind[k.GroupKind]--
	if q.byKind[k.GroupKind] > 0 {
		return false
	}
	delete(q.byKind, k.GroupKind)
	return true
}
