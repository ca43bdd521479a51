// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"container/list"
	"context"
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
	mu      sync.Mutex
	closed  bool
	places  list.List // of *place, oldest first
	evicted int       // that lost their place and have not left yet
}

// place is what a stranger has in the lobby.
type place struct {
	raw   net.Conn
	end   context.CancelFunc // of what serves it
	entry *list.Element      // nil once it was evicted
}

// evict ends what a stranger has here. Neither of the two blocks, even under the lock.
func (p *place) evict() {
	p.end()
	_ = p.raw.Close()
}

// enter takes a place, perhaps from the oldest, whose connection and context end. There is none after close, and none
// while as many of those who lost theirs are still served as there are places: then the connection is closed.
func (l *lobby) enter(raw net.Conn, end context.CancelFunc) (p *place, evicts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.evicted >= maxHandshakes {
		_ = raw.Close()
		return nil, !l.closed
	}
	if l.places.Len() >= maxHandshakes {
		oldest := l.places.Remove(l.places.Front()).(*place)
		oldest.evict()
		oldest.entry = nil
		l.evicted++
		evicts = true
	}
	p = &place{raw: raw, end: end}
	p.entry = l.places.PushBack(p)
	return p, evicts
}

// leave gives the place back and says whether it was taken away before.
func (l *lobby) leave(p *place) (evicted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.entry == nil {
		l.evicted--
		return true
	}
	l.places.Remove(p.entry)
	return false
}

// close ends all that are there, and lets nobody in any more.
func (l *lobby) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for e := l.places.Front(); e != nil; e = e.Next() {
		e.Value.(*place).evict()
	}
}
