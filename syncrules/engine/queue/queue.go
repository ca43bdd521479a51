// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Keys is the queue. What ends in Locked is called with the lock of the engine held.
type Keys struct {
	workqueue.TypedDelayingInterface[place.Key] // lives from Open to ShutDown

	pending map[place.Key]bool       // keys in the queue (false) or being worked on (true)
	byKind  map[schema.GroupKind]int // how many of pending
}

// New returns one that is not open.
func New() Keys {
	return Keys{pending: map[place.Key]bool{}, byKind: map[schema.GroupKind]int{}}
}

// Open makes the queue ready for use.
func (q *Keys) Open() {
	q.TypedDelayingInterface = workqueue.NewTypedDelayingQueue[place.Key]()
}

// EnqueueLocked puts a key up for a decision.
func (q *Keys) EnqueueLocked(k place.Key) {
	if busy, ok := q.pending[k]; !ok || busy {
		if !ok {
			q.byKind[k.GroupKind]++
		}
		q.pending[k] = false
	}
	q.Add(k)
}

// ParkLocked lets a key count as pending that waits for its turn elsewhere.
func (q *Keys) ParkLocked(k place.Key) {
	if _, ok := q.pending[k]; !ok {
		q.byKind[k.GroupKind]++
		q.pending[k] = false
	}
}

// EnqueueAfter puts a key up after a delay; it does not count as pending meanwhile.
func (q *Keys) EnqueueAfter(k place.Key, d time.Duration) { q.AddAfter(k, d) }

// PendingLocked says that keys of some of the kinds are pending.
func (q *Keys) PendingLocked(kinds []schema.GroupKind) bool {
	return slices.ContainsFunc(kinds, func(gk schema.GroupKind) bool { return q.byKind[gk] > 0 })
}

// TakenLocked and DoneLocked bracket the work on a key.
func (q *Keys) TakenLocked(k place.Key) {
	if _, ok := q.pending[k]; !ok {
		q.byKind[k.GroupKind]++
	}
	q.pending[k] = true
}

// DoneLocked returns true when no key of the kind is pending any more.
func (q *Keys) DoneLocked(k place.Key) bool {
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
