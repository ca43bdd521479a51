// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"net"
	"sync"
	"time"
)

// line is what is known of the way to one peer.
type line struct {
	id string

	mu      sync.Mutex
	queue   []queued
	bytes   int
	lossy   bool // a message was dropped since lost was last called
	current *packetConn
	conns   map[*packetConn]struct{}
	dialing bool
	redial  backoff
	retry   time.Time // no dial before
	failed  bool      // the last dial did
	used    time.Time // last frame that was not idle
}

type queued struct {
	kind    byte
	payload []byte
}

// packetConn is one packet connection; any number of them may be read, only
// the line's current one is written.
type packetConn struct {
	net.Conn
	dialled bool
	heard   bool // a frame has arrived: the peer accepts us; guarded by the line
	writing bool // what was taken last may not be written yet; guarded by the line
	since   time.Time
	wake    chan struct{}
	done    chan struct{}
}

// wantsDial marks the line as dialling when it has to; with the lock held.
func (l *line) wantsDial() bool {
	if l.current != nil || l.dialing {
		return false
	}
	l.dialing = true
	return true
}

// attach adds a connection, chooses the current one, and returns those that
// the newcomer replaces. The lock is held.
func (l *line) attach(c *packetConn, self string) (stale []*packetConn) {
	for other := range l.conns {
		if other.dialled == c.dialled {
			stale = append(stale, other)
		}
	}
	l.conns[c] = struct{}{}
	l.dialing = l.dialing && !c.dialled
	l.failed = false
	if l.current == nil {
		l.lossy = false // connected makes up for it
	}
	switch held := l.current; {
	case held == nil, held.dialled == c.dialled:
		l.current = c
	case time.Since(held.since) > settleTime:
		stale = append(stale, held)
		l.current = c
	case c.dialled == (self < l.id): // both dialled: the smaller clusterID's counts
		l.current = c
	}
	signal(l.current.wake)
	return stale
}

// remove takes a connection that ended off the line. What waits goes to another
// connection, if there is one. The lock is held.
func (l *line) remove(c *packetConn) {
	delete(l.conns, c)
	close(c.done)
	if l.current == c {
		l.current = nil
		for other := range l.conns {
			l.current = other
			signal(other.wake)
		}
	}
	if c.dialled && !c.heard { // it may not have pinned us: no reason to hurry
		l.retry = time.Now().Add(l.redial.next(maxRedial))
	}
}

// hear notes that a frame arrived.
func (l *line) hear(c *packetConn, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !idle {
		l.used = time.Now()
	}
	if !c.heard {
		c.heard = true
		l.redial.reset()
	}
}

// clear empties the queue, with the lock held, and says how much was in it.
func (l *line) clear() int {
	n := len(l.queue)
	for _, f := range l.queue {
		l.lossy = l.lossy || f.kind != framePacket
	}
	l.queue, l.bytes = nil, 0
	return n
}

// take encodes the next frames of the queue. When none are left it says
// whether messages were dropped since it last did.
func (l *line) take(c *packetConn, batch []byte) (_ []byte, lossy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.writing = false
	if l.current != c {
		return batch, false
	}
	n := 0
	for ; n < len(l.queue) && len(batch) < writeBatch; n++ {
		f := l.queue[n]
		batch = appendFrame(batch, f.kind, f.payload)
		l.bytes -= len(f.payload)
		l.queue[n] = queued{}
	}
	if n > 0 {
		c.writing = true
		if l.queue = l.queue[n:]; len(l.queue) == 0 {
			l.queue = nil
		}
		return batch, false
	}
	lossy, l.lossy = l.lossy, false
	return batch, lossy
}

func (l *line) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = true
}

// pending says that frames wait, or are being written, which may still be sent soon.
func (l *line) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return len(l.queue) > 0 && l.dialing && !l.failed
	}
	return len(l.queue) > 0 || l.current.writing
}
