// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"container/list"
	"net"
	"sync"
)

// maxHandshakes is how many strangers are served at a time. One more ends
// the oldest: who holds connections open without finishing a handshake
// loses them first. A flood of handshakes from many connections can still
// delay those of members, which try again.
const maxHandshakes = 128

// lobby holds the connections of strangers.
type lobby struct {
	mu     sync.Mutex
	closed bool
	conns  list.List // of net.Conn, oldest first
}

// enter takes a place, perhaps from the oldest. After close there is none, and
// the connection is closed.
func (l *lobby) enter(raw net.Conn) (place *list.Element, evicts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = raw.Close()
		return nil, false
	}
	if l.conns.Len() >= maxHandshakes {
		// Closing the raw connection does not block, even under the lock.
		_ = l.conns.Remove(l.conns.Front()).(net.Conn).Close()
		evicts = true
	}
	return l.conns.PushBack(raw), evicts
}

// leave gives the place back and says whether it was taken away before.
func (l *lobby) leave(place *list.Element) (evicted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.conns.Len()
	l.conns.Remove(place)
	return l.conns.Len() == before
}

// close ends all that are there, and lets nobody in any more.
func (l *lobby) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for e := l.conns.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close()
	}
}
