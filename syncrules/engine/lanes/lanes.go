// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

const (
	// slow is how long a write may take. After strikes that took longer their lane counts as slow: for memory, or until
	// fast others in a row took less.
	slow    = time.Second
	strikes = 3
	memory  = 30 * time.Second
	fast    = 50
	// many is how many slow lanes of one kind make all lanes of it slow.
	many = 3
)

// lane is the copies of one kind in one namespace.
type lane struct {
	kind      schema.GroupKind
	namespace string
}

func laneOf(k place.Key) lane { return lane{k.GroupKind, k.Namespace} }

// mark is what is known of a lane with slow writes.
type mark struct {
	strikes, fast int // slow writes, and fast ones since the last
	until         time.Time
}

// Lanes say which keys may be worked on now.
type Lanes struct {
	marks       map[lane]*mark
	kinds       map[schema.GroupKind]time.Time
	working     map[lane]int                     // keys that are being worked on
	waitingKeys map[place.Key]struct{}           // keys that wait
	queues      map[lane]*turns.Lines[place.Key] // the same, in turn
	order       []lane                           // of queues
	called      map[place.Key]struct{}           // whose turn it is, until they enter
	limit       int                              // keys of slow lanes that may be worked on
}

// New makes lanes for so many workers.
func New(workers int) *Lanes {
	return &Lanes{
		marks: map[lane]*mark{}, kinds: map[schema.GroupKind]time.Time{}, working: map[lane]int{}, waitingKeys: map[place.Key]struct{}{},
		queues: map[lane]*turns.Lines[place.Key]{}, called: map[place.Key]struct{}{}, limit: max(1, workers/2),
	}
}

// Enter says whether a key may be worked on now. If not it waits here, in the shortest of some lines, and a later Leave returns it.
func (l *Lanes) Enter(k place.Key, now time.Time, lines func(k place.Key) []turns.Path) bool {
	at := laneOf(k)
	delete(l.called, k)
	if _, waits := l.waitingKeys[k]; waits {
		return false
	}
	if l.isSlow(at, now) && l.held(now) >= l.limit {
		l.waitingKeys[k] = struct{}{}
		queue := l.queues[at]
		if queue == nil {
			queue = &turns.Lines[place.Key]{}
			l.queues[at] = queue
			l.order = append(l.order, at)
		}
		queue.Push(queue.Shortest(lines(k)), k)
		return false
	}
	l.working[at]++
	return true
}

// Has says that a key waits here, or that its turn here has come and it has not entered yet.
func (l *Lanes) Has(k place.Key) bool {
	_, waits := l.waitingKeys[k]
	_, called := l.called[k]
	return waits || called
}

// Leave notes how long the write of a key that entered took, 0 for none, and returns the keys whose turn it is.
func (l *Lanes) Leave(k place.Key, took time.Duration, now time.Time) (turn []place.Key) {
	at := laneOf(k)
	if l.working[at]--; l.working[at] == 0 {
		delete(l.working, at)
	}
	l.took(at, took, now)
	for _, at := range slices.Clone(l.order) {
		if !l.isSlow(at, now) {
			turn = append(turn, l.call(at, l.queues[at].Len())...)
		}
	}
	for len(l.order) > 0 && l.held(now)+len(l.called) < l.limit {
		called := l.call(l.order[0], 1)
		l.called[called[0]] = struct{}{}
		turn = append(turn, called...)
	}
	return turn
}

// took takes in how long a write took, 0 for none.
func (l *Lanes) took(at lane, duration time.Duration, now time.Time) {
	m := l.marks[at]
	if m != nil && !now.Before(m.until) {
		delete(l.marks, at)
		m = nil
	}
	switch {
	case duration > slow && m == nil:
		l.marks[at] = &mark{strikes: 1, until: now.Add(memory)}
		return
	case duration > slow:
		m.strikes, m.fast, m.until = m.strikes+1, 0, now.Add(memory)
	case duration > 0 && m != nil:
		if m.fast++; m.fast >= fast {
			delete(l.marks, at)
			delete(l.kinds, at.kind)
		}
		return
	default:
		return
	}
	slowLanes := 0
	for other, m := range l.marks {
		if !now.Before(m.until) {
			delete(l.marks, other)
		} else if other.kind == at.kind && m.strikes >= strikes {
			slowLanes++
		}
	}
	if slowLanes >= many {
		l.kinds[at.kind] = now.Add(memory)
	}
}

func (l *Lanes) isSlow(at lane, now time.Time) bool {
	if m := l.marks[at]; m != nil && m.strikes >= strikes && now.Before(m.until) {
		return true
	}
	return now.Before(l.kinds[at.kind])
}

// held is how many keys of slow lanes are being worked on.
func (l *Lanes) held(now time.Time) (n int) {
	for at, working := range l.working {
		if l.isSlow(at, now) {
			n += working
		}
	}
	return n
}

// call returns the next n keys that wait in a lane, which is the last in turn from then on.
func (l *Lanes) call(at lane, n int) (keys []place.Key) {
	queue := l.queues[at]
	for range n {
		k := queue.Pop()
		delete(l.waitingKeys, k)
		keys = append(keys, k)
	}
	l.order = slices.DeleteFunc(l.order, func(x lane) bool { return x == at })
	if queue.Len() > 0 {
		l.order = append(l.order, at)
	} else {
		delete(l.queues, at)
	}
	return keys
}

// Empty says that no key is in work, waits, or was called and has not entered yet.
func (l *Lanes) Empty() bool {
	return len(l.working)+len(l.queues)+len(l.waitingKeys)+len(l.order)+len(l.called) == 0
}
