// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"net"
	"sync"
	"time"

	"github.com/roster-mesh/roster/mesh/pace"
)

// sendQueue holds the frames for one peer, and the connections to it.
type sendQueue struct {
	id string

	mu       sync.Mutex
	frames   []queuedFrame
	bytes    int
	lossy    bool // a message was dropped since lost was last called
	current  *packetConn
	conns    map[*packetConn]struct{}
	dialing  bool
	redial   pace.Backoff
	retry    time.Time // no dial before
	failed   bool      // the last dial did
	lastUsed time.Time // last frame that was not idle
}

type queuedFrame struct {
	kind    byte
	payload []byte
}

// packetConn is one packet connection; any number of them may be read, only
// the queue's current one is written.
type packetConn struct {
	net.Conn
	dialled  bool
	accepted bool // a frame has arrived: the peer accepts us; guarded by the queue
	writing  bool // what was taken last may not be written yet; guarded by the queue
	since    time.Time
	wake     chan struct{}
	done     chan struct{}
}

// wantsDialLocked marks the queue as dialling when it has to.
func (l *sendQueue) wantsDialLocked() bool {
	if l.current != nil || l.dialing {
		return false
	}
	l.dialing = true
	return true
}

// attachLocked adds a connection, chooses the current one, and returns those that
// the newcomer replaces.
func (l *sendQueue) attachLocked(c *packetConn, self string) (stale []*packetConn) {
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

// removeLocked removes a connection that ended. What waits goes to another
// connection, if there is one.
func (l *sendQueue) removeLocked(c *packetConn) {
	delete(l.conns, c)
	close(c.done)
	if l.current == c {
		l.current = nil
		for other := range l.conns {
			l.current = other
			signal(other.wake)
		}
	}
	if c.dialled && !c.accepted { // it may not have pinned us: no reason to hurry
		l.retry = time.Now().Add(l.redial.Next(maxRedial))
	}
}

// received notes that a frame arrived.
func (l *sendQueue) received(c *packetConn, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !idle {
		l.lastUsed = time.Now()
	}
	if !c.accepted {
		c.accepted = true
		l.redial.Reset()
	}
}

// clearLocked empties the queue and says how much was in it.
func (l *sendQueue) clearLocked() int {
	n := len(l.frames)
	for _, f := range l.frames {
		l.lossy = l.lossy || f.kind != framePacket
	}
	l.frames, l.bytes = nil, 0
	return n
}

// nextBatch encodes the next frames of the queue. When none are left it says
// whether messages were dropped since it last did.
func (l *sendQueue) nextBatch(c *packetConn, batch []byte) (_ []byte, lossy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.writing = false
	if l.current != c {
		return batch, false
	}
	n := 0
	for ; n < len(l.frames) && len(batch) < writeBatch; n++ {
		f := l.frames[n]
		batch = appendFrame(batch, f.kind, f.payload)
		l.bytes -= len(f.payload)
		l.frames[n] = queuedFrame{}
	}
	if n > 0 {
		c.writing = true
		if l.frames = l.frames[n:]; len(l.frames) == 0 {
			l.frames = nil
		}
		return batch, false
	}
	lossy, l.lossy = l.lossy, false
	return batch, lossy
}

func (l *sendQueue) markLossy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = true
}

// pending says that frames wait, or are being written, which may still be sent soon.
func (l *sendQueue) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return len(l.frames) > 0 && l.dialing && !l.failed
	}
	return len(l.frames) > 0 || l.current.writing
}
