// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

// waiting is the keys that wait for a worker: a workqueue.Queue, which that calls with a lock of its own. mu is taken after all others.
type waiting struct {
	mu     sync.Mutex
	front  []place.Key // before all lines: whose turn it is, and whose delay has ended, of which nobody knows yet in which line they belong
	lines  turns.Lines[ticket]
	valid  table[ticket] // of each key in lines: others were for lines that it has left
	issued uint64
	old    int               // how many tickets in lines are not valid, at most
	sorted table[turns.Path] // the lines of those that are about to be put there
	next   table[struct{}]   // those out of lines that a worker has taken, and not asked about yet
}

// ticket is a key in a line.
type ticket struct {
	key    place.Key
	n      uint64 // of all that were issued
	path   turns.Path
	before float64 // how many came before it then
}

// manyOld is how many tickets are kept that are not valid any more, beside as many as there are valid ones.
const manyOld = 1024

// Push has a key wait.
func (w *waiting) Push(k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path, ok := w.sorted.get(k)
	if !ok {
		w.front = append(w.front, k)
		return
	}
	w.sorted.delete(k)
	_, before := w.lines.Shortest([]turns.Path{path})
	w.line(k, path, before)
}

// line has a key wait in a line, and in no other.
func (w *waiting) line(k place.Key, path turns.Path, before float64) {
	if t, waits := w.valid.get(k); waits {
		w.lines.Leave(t.path)
		w.old++
	}
	w.issued++
	t := ticket{k, w.issued, path, before}
	w.valid.set(k, t)
	w.lines.Push(path, t)
	if w.old > w.valid.len()+manyOld {
		w.lines.Tidy(w.isValid)
		w.old = 0
	}
}

func (w *waiting) isValid(t ticket) bool {
	valid, _ := w.valid.get(t.key)
	return valid.n == t.n
}

// Touch is told that a key that waits is put up again.
func (w *waiting) Touch(k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if path, ok := w.sorted.get(k); ok {
		w.sorted.delete(k)
		w.moveTo(k, []turns.Path{path})
	}
}

// Len is how many keys wait.
func (w *waiting) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.len()
}

func (w *waiting) len() int { return len(w.front) + w.valid.len() }

// Pop takes the next key. There is one.
func (w *waiting) Pop() (k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.front) > 0 {
		k, w.front[0] = w.front[0], k
		w.front = w.front[1:]
		return k
	}
	t := w.lines.Pop(w.isValid)
	w.valid.delete(t.key)
	w.next.set(t.key, struct{}{})
	return t.key
}

// move has a key that waits in a line, or is about to, wait in another one if far fewer come before it there.
func (w *waiting) move(k place.Key, paths func() []turns.Path) {
	const fewBefore = 2
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, sorted := w.sorted.get(k); sorted {
		w.sortTo(k, paths())
	} else if t, _ := w.valid.get(k); t.before > fewBefore {
		w.moveTo(k, paths())
	}
}

func (w *waiting) moveTo(k place.Key, paths []turns.Path) {
	path, before := w.lines.Shortest(paths)
	if t, waits := w.valid.get(k); waits && before < t.before/2 {
		w.line(k, path, before)
	}
}

// isNext says that it is the turn of a key which a worker took: it was in a line, or nobody else waits.
func (w *waiting) isNext(k place.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, next := w.next.get(k)
	w.next.delete(k)
	return next || w.len() == 0
}

// forget forgets what is noted of a key that is not in a line.
func (w *waiting) forget(k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sorted.delete(k)
	w.next.delete(k)
}

// sort has a key that is put up next, or once a worker is done with it, wait in the shortest of some lines.
func (w *waiting) sort(k place.Key, paths []turns.Path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sortTo(k, paths)
}

func (w *waiting) sortTo(k place.Key, paths []turns.Path) {
	if path, ok := w.sorted.get(k); ok {
		paths = append([]turns.Path{path}, paths...)
	}
	path, _ := w.lines.Shortest(paths)
	w.sorted.set(k, path)
}
