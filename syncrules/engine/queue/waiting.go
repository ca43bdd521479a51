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
	lines  turns.Lines[place.Key]
	sorted map[place.Key]turns.Path // the lines of those that are about to be put there
	next   map[place.Key]struct{}   // those out of lines that a worker has taken, and not asked about yet
}

func newWaiting() *waiting {
	return &waiting{sorted: map[place.Key]turns.Path{}, next: map[place.Key]struct{}{}}
}

// Push has a key wait.
func (w *waiting) Push(k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path, ok := w.sorted[k]
	if !ok {
		w.front = append(w.front, k)
		return
	}
	delete(w.sorted, k)
	w.lines.Push(path, k)
}

// Touch leaves a key that is put up again where it is.
func (w *waiting) Touch(k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sorted, k)
}

// Len is how many keys wait.
func (w *waiting) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.len()
}

func (w *waiting) len() int { return len(w.front) + w.lines.Len() }

// Pop takes the next key. There is one.
func (w *waiting) Pop() (k place.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.front) > 0 {
		k, w.front[0] = w.front[0], k
		w.front = w.front[1:]
		return k
	}
	k = w.lines.Pop()
	w.next[k] = struct{}{}
	return k
}

// isNext says that it is the turn of a key which a worker took: it was in a line, or nobody else waits.
func (w *waiting) isNext(k place.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, next := w.next[k]
	delete(w.next, k)
	return next || w.len() == 0
}

// sort has a key that is put up next, or once a worker is done with it, wait in the shortest of some lines.
func (w *waiting) sort(k place.Key, paths []turns.Path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sorted[k] = w.lines.Shortest(paths)
}
