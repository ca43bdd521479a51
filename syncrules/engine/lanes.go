// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// laneSlow is how long a write may take. After laneStrikes that took longer their lane counts as slow: for laneMemory,
	// or until laneFast others in a row took less.
	laneSlow    = time.Second
	laneStrikes = 3
	laneMemory  = 30 * time.Second
	laneFast    = 50
	// laneMany is how many slow lanes of one kind make all lanes of it slow.
	laneMany = 3
)

// lane is the copies of one kind in one namespace: what makes an API server slow to take one, as an admission webhook
// that does not answer, is as a rule set up for these.
type lane struct {
	kind      schema.GroupKind
	namespace string
}

func laneOf(k Key) lane { return lane{k.GroupKind, k.Namespace} }

// mark is what is known of a lane with slow writes.
type mark struct {
	strikes, fast int // slow writes, and fast ones since the last
	until         time.Time
}

// lanes keep half of the workers for the lanes that are not slow: without that, one webhook would hold up the copies
// of all rules. The keys of slow lanes share the other half, and wait aside for their turn, lane by lane. It is known
// of a lane when its first slow writes are done; until then it may have all workers. Engine.mu guards it.
type lanes struct {
	marks   map[lane]*mark
	kinds   map[schema.GroupKind]time.Time
	working map[lane]int     // keys that are being worked on
	aside   map[Key]struct{} // keys that wait
	waiting map[lane][]Key   // the same, in turn
	order   []lane           // of waiting
	called  map[Key]struct{} // whose turn it is, until they enter
	most    int              // keys of slow lanes that may be worked on
}

func newLanes(workers int) lanes {
	return lanes{
		marks: map[lane]*mark{}, kinds: map[schema.GroupKind]time.Time{}, working: map[lane]int{}, aside: map[Key]struct{}{},
		waiting: map[lane][]Key{}, called: map[Key]struct{}{}, most: max(1, workers/2),
	}
}

// enter says whether a key may be worked on now. If not it is put aside, and some leave returns it.
func (l *lanes) enter(k Key, now time.Time) bool {
	at := laneOf(k)
	delete(l.called, k)
	if _, waits := l.aside[k]; waits {
		return false
	}
	if l.isSlow(at, now) && l.held(now) >= l.most {
		l.aside[k] = struct{}{}
		if len(l.waiting[at]) == 0 {
			l.order = append(l.order, at)
		}
		l.waiting[at] = append(l.waiting[at], k)
		return false
	}
	l.working[at]++
	return true
}

// leave notes how long the write of a key that entered took, 0 for none, and returns the keys whose turn it is.
func (l *lanes) leave(k Key, took time.Duration, now time.Time) (turn []Key) {
	at := laneOf(k)
	if l.working[at]--; l.working[at] == 0 {
		delete(l.working, at)
	}
	l.note(at, took, now)
	for _, at := range slices.Clone(l.order) {
		if !l.isSlow(at, now) {
			turn = append(turn, l.call(at, len(l.waiting[at]))...)
		}
	}
	for len(l.order) > 0 && l.held(now)+len(l.called) < l.most {
		turn = append(turn, l.call(l.order[0], 1)...)
	}
	return turn
}

// note takes in how long a write took, 0 for none.
func (l *lanes) note(at lane, took time.Duration, now time.Time) {
	m := l.marks[at]
	if m != nil && !now.Before(m.until) {
		delete(l.marks, at)
		m = nil
	}
	switch {
	case took > laneSlow && m == nil:
		l.marks[at] = &mark{strikes: 1, until: now.Add(laneMemory)}
		return
	case took > laneSlow:
		m.strikes, m.fast, m.until = m.strikes+1, 0, now.Add(laneMemory)
	case took > 0 && m != nil:
		if m.fast++; m.fast >= laneFast {
			delete(l.marks, at)
			delete(l.kinds, at.kind)
		}
		return
	default:
		return
	}
	many := 0
	for other, m := range l.marks {
		if !now.Before(m.until) {
			delete(l.marks, other)
		} else if other.kind == at.kind && m.strikes >= laneStrikes {
			many++
		}
	}
	if many >= laneMany {
		l.kinds[at.kind] = now.Add(laneMemory)
	}
}

func (l *lanes) isSlow(at lane, now time.Time) bool {
	if m := l.marks[at]; m != nil && m.strikes >= laneStrikes && now.Before(m.until) {
		return true
	}
	return now.Before(l.kinds[at.kind])
}

// held is how many keys of slow lanes are being worked on.
func (l *lanes) held(now time.Time) (n int) {
	for at, working := range l.working {
		if l.isSlow(at, now) {
			n += working
		}
	}
	return n
}

// call returns the first n keys that wait in a lane, which is the last in turn from then on.
func (l *lanes) call(at lane, n int) []Key {
	keys := l.waiting[at]
	l.order = slices.DeleteFunc(l.order, func(x lane) bool { return x == at })
	if l.waiting[at] = keys[n:]; len(keys) == n {
		delete(l.waiting, at)
	} else {
		l.order = append(l.order, at)
	}
	for _, k := range keys[:n] {
		delete(l.aside, k)
		l.called[k] = struct{}{}
	}
	return keys[:n]
}
