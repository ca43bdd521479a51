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
	marks   map[lane]*mark
	kinds   map[schema.GroupKind]time.Time
	working map[lane]int             // keys that are being worked on
	paths   map[place.Key]turns.Path // of the keys that wait
	waiting map[lane]int             // how many
	lines   turns.Lines[place.Key]   // where
	called  map[place.Key]struct{}   // whose turn it is, until they enter
	limit   int                      // keys of slow lanes that may be worked on
}

// New makes lanes for so many workers.
func New(workers int) *Lanes {
	return &Lanes{
		marks: map[lane]*mark{}, kinds: map[schema.GroupKind]time.Time{}, working: map[lane]int{}, paths: map[place.Key]turns.Path{},
		waiting: map[lane]int{}, called: map[place.Key]struct{}{}, limit: max(1, workers/2),
	}
}

// Enter says whether a key may be worked on now. If not it waits here, in the shortest of some lines, where each lane has its own, and a later Leave returns it.
func (l *Lanes) Enter(k place.Key, now time.Time, lines func(k place.Key) []turns.Path) bool {
	at := laneOf(k)
	delete(l.called, k)
	if _, waits := l.paths[k]; waits {
		return false
	}
	if l.isSlow(at, now) && l.held(now) >= l.limit {
		var paths []turns.Path
		for _, path := range lines(k) {
			paths = append(paths, append(slices.Clip(path), at.kind.String()+" "+at.namespace))
		}
		l.paths[k], _ = l.lines.Shortest(paths)
		l.lines.Push(l.paths[k], k)
		l.waiting[at]++
		return false
	}
	l.working[at]++
	return true
}

// Has says that a key waits here, or that its turn here has come and it has not entered yet.
func (l *Lanes) Has(k place.Key) bool {
	_, waits := l.paths[k]
	_, called := l.called[k]
	return waits || called
}

// Leave notes how long the write of a key that entered took, 0 for none, and returns the keys that wait no more: those of lanes that are not slow any more, and
// those whose turn it is.
func (l *Lanes) Leave(k place.Key, took time.Duration, now time.Time) (turn []place.Key) {
	at := laneOf(k)
	if l.working[at]--; l.working[at] == 0 {
		delete(l.working, at)
	}
	l.took(at, took, now)
	for at := range l.waiting {
		if !l.isSlow(at, now) {
			turn = l.letGo(now)
			break
		}
	}
	for l.lines.Len() > 0 && l.held(now)+len(l.called) < l.limit {
		next := l.pop()
		l.called[next] = struct{}{}
		turn = append(turn, next)
	}
	return turn
}

// letGo returns the keys that wait in lanes that are not slow any more.
func (l *Lanes) letGo(now time.Time) (free []place.Key) {
	old := l.lines
	for l.lines = (turns.Lines[place.Key]{}); old.Len() > 0; {
		if k := old.Pop(all); l.isSlow(laneOf(k), now) {
			l.lines.Push(l.paths[k], k)
		} else {
			free = append(free, k)
			l.forget(k)
		}
	}
	return free
}

// pop returns the key whose turn it is.
func (l *Lanes) pop() place.Key {
	k := l.lines.Pop(all)
	l.forget(k)
	return k
}

func all(place.Key) bool { return true }

// forget says that a key waits no more.
func (l *Lanes) forget(k place.Key) {
	delete(l.paths, k)
	at := laneOf(k)
	if l.waiting[at]--; l.waiting[at] == 0 {
		delete(l.waiting, at)
	}
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

// Empty says that no key is in work, waits, or was called and has not entered yet.
func (l *Lanes) Empty() bool {
	return len(l.working)+len(l.paths)+len(l.waiting)+l.lines.Len()+len(l.called) == 0
}
