// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// A queue holds what waits for a connection or a slow peer.
	maxQueueFrames = 512
	maxQueueBytes  = 2 << 20
	// writeTimeout ends a connection whose peer does not read.
	writeTimeout = 10 * time.Second
	// idlePing keeps a silent connection alive: two of them may pass without a frame, the
	// third ends it, which is how a path that lost its state (a NAT, a dead host) is noticed.
	idlePing    = 15 * time.Second
	readTimeout = 3 * idlePing
	// idleClose is how long a connection to a member that is no warm
	// neighbour outlives its last frame.
	idleClose = 60 * time.Second
	// settleTime: two members that dial each other at the same moment agree on
	// one connection by clusterID; later a newer connection is the better one,
	// because nobody dials who still has one.
	settleTime = 5 * time.Second
	// maxRedial caps the wait between dials while frames wait.
	maxRedial = 10 * time.Second
	// writeBatch is how much of a queue is encrypted and written at a time.
	writeBatch = 32 << 10
)

// packets carries frames to and from peers: per peer one bounded sendQueue, with
// at most one connection that is written to. Sending never blocks
// and never dials inline; a frame that cannot be kept is dropped and counted.
type packets struct {
	self    string
	metrics *metrics

	// Set before the first connection. All are called without locks held.
	dial      func(id string, failed bool, done func(net.Conn, error)) // asynchronous; done is called once; failed: the last dial did
	trusted   func(peer string) bool
	handle    func(peer string, kind byte, payload []byte)
	connected func(peer string) // the queue got a connection after it had none
	lost      func(peer string) // messages to the peer were dropped, and there is room again
	warm      func(peer string) bool

	mu     sync.Mutex
	closed bool
	queues map[string]*sendQueue
	wg     sync.WaitGroup
}

func newPackets(self string, m *metrics) *packets {
	return &packets{self: self, metrics: m, queues: map[string]*sendQueue{}}
}

// queue returns that of a peer, or nil after close.
func (p *packets) queue(id string) *sendQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	l := p.queues[id]
	if l == nil {
		l = &sendQueue{id: id, conns: map[*packetConn]struct{}{}}
		p.queues[id] = l
	}
	return l
}

// send queues a frame for a peer, unless its pin was removed.
func (p *packets) send(id string, kind byte, payload []byte) {
	if !p.trusted(id) {
		return
	}
	l := p.queue(id)
	if l == nil {
		return
	}
	l.mu.Lock()
	reason := ""
	switch {
	case l.current == nil && !l.dialing && time.Now().Before(l.retry):
		reason = dropUnreachable
	case len(l.frames) >= maxQueueFrames, l.bytes+len(payload) > maxQueueBytes:
		reason = dropQueueFull
	}
	if reason != "" {
		l.lossy = l.lossy || kind != framePacket
		l.mu.Unlock()
		p.metrics.drop(reason)
		return
	}
	l.frames = append(l.frames, queuedFrame{kind, payload})
	l.bytes += len(payload)
	l.lastUsed = time.Now()
	if l.current != nil {
		signal(l.current.wake)
	}
	dial := l.wantsDialLocked()
	l.mu.Unlock()
	if dial {
		p.connect(l)
	}
}

// ensure dials the peer if no connection exists and no wait is due.
func (p *packets) ensure(id string) {
	l := p.queue(id)
	if l == nil {
		return
	}
	l.mu.Lock()
	dial := !time.Now().Before(l.retry) && l.wantsDialLocked()
	l.mu.Unlock()
	if dial {
		p.connect(l)
	}
}

// retryNow forgets the wait between dials of a peer.
func (p *packets) retryNow(id string) {
	p.mu.Lock()
	l := p.queues[id]
	p.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retry = time.Time{}
	l.redial.Reset()
}

func (p *packets) connect(l *sendQueue) {
	l.mu.Lock()
	failed := l.failed
	l.mu.Unlock()
	p.dial(l.id, failed, func(conn net.Conn, err error) {
		if err == nil {
			p.run(l, conn, true)
			return
		}
		l.mu.Lock()
		l.dialing = false
		if errors.Is(err, errBusy) {
			l.retry = time.Now().Add(pace.MinBackoff)
		} else {
			l.failed = true
			l.retry = time.Now().Add(l.redial.Next(maxRedial))
		}
		dropped := 0
		if l.current == nil { // nobody dialled us in the meantime
			dropped = l.clearLocked()
		}
		l.mu.Unlock()
		p.metrics.drops.WithLabelValues(dropUnreachable).Add(float64(dropped))
	})
}

// accept takes over a connection that a peer dialled.
func (p *packets) accept(peer string, conn net.Conn) {
	l := p.queue(peer)
	if l == nil {
		_ = conn.Close()
		return
	}
	p.run(l, conn, false)
}

// run attaches a connection to its queue and starts its two goroutines.
func (p *packets) run(l *sendQueue, conn net.Conn, dialled bool) {
	c := &packetConn{
		Conn: conn, dialled: dialled, since: time.Now(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = conn.Close()
		return
	}
	l.mu.Lock()
	first := l.current == nil
	stale := l.attachLocked(c, p.self)
	l.mu.Unlock()
	p.wg.Go(func() { p.write(l, c) })
	p.wg.Go(func() { p.read(l, c) })
	p.mu.Unlock()
	for _, s := range stale {
		_ = s.Close()
	}
	if first {
		p.connected(l.id)
	}
}

// detach ends a connection, and dials again if frames wait.
func (p *packets) detach(l *sendQueue, c *packetConn) {
	_ = c.Close()
	l.mu.Lock()
	if _, ok := l.conns[c]; !ok {
		l.mu.Unlock()
		return
	}
	l.removeLocked(c)
	dropped := 0
	if l.current == nil && time.Now().Before(l.retry) {
		dropped = l.clearLocked()
	}
	dial := len(l.frames) > 0 && l.wantsDialLocked()
	l.mu.Unlock()
	p.metrics.drops.WithLabelValues(dropUnreachable).Add(float64(dropped))
	if dial {
		p.connect(l)
	}
}

// read hands every frame to handle until the connection ends.
func (p *packets) read(l *sendQueue, c *packetConn) {
	defer p.detach(l, c)
	r := bufio.NewReader(c)
	for {
		_ = c.SetReadDeadline(time.Now().Add(readTimeout))
		kind, payload, err := readFrame(r)
		if err != nil {
			p.metrics.dropped(err)
			return
		}
		if kind != frameRemoved { // which is no reason to dial again soon
			l.received(c, kind == frameIdle)
		}
		if !p.trusted(l.id) { // the pin was removed meanwhile
			return
		}
		if kind != frameIdle {
			p.handle(l.id, kind, payload)
		}
	}
}

// write sends what is queued while c is the current connection.
func (p *packets) write(l *sendQueue, c *packetConn) {
	defer p.detach(l, c)
	idle := time.NewTicker(idlePing)
	defer idle.Stop()
	var batch []byte
	silent := true // since the last tick
	for {
		select {
		case <-c.wake:
		case <-idle.C:
			if !p.tick(l, c, silent) {
				return
			}
			silent = true
			continue
		case <-c.done:
			return
		}
		for {
			var lossy bool
			if batch, lossy = l.nextBatch(c, batch[:0]); len(batch) > 0 {
				if silent = false; !flush(c, batch) {
					l.markLossy()
					return
				}
				continue
			}
			if lossy {
				p.lost(l.id)
			}
			if cap(batch) > writeBatch {
				batch = nil // it held a large frame
			}
			break
		}
	}
}

func flush(c net.Conn, b []byte) bool {
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.Write(b)
	return err == nil
}

// tick keeps the current connection alive when it was silent, unless it is one that
// we dialled and nobody needs any more. The others end at their peer, by readTimeout.
func (p *packets) tick(l *sendQueue, c *packetConn, silent bool) (keep bool) {
	l.mu.Lock()
	current, unused := l.current == c, time.Since(l.lastUsed) > idleClose
	l.mu.Unlock()
	switch {
	case !current:
		return true
	case !silent:
		return true // its peer hears from us within two of them, and waits for three
	case c.dialled && unused && !p.warm(l.id):
		return false
	default:
		return flush(c, appendFrame(nil, frameIdle, nil))
	}
}

func (p *packets) all() []*sendQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := make([]*sendQueue, 0, len(p.queues))
	for _, l := range p.queues {
		lines = append(lines, l)
	}
	return lines
}

// drain waits, as long as the context lasts, until the queues are empty whose peers are connected or being dialled.
func (p *packets) drain(ctx context.Context) {
	for _, l := range p.all() {
		for l.pending() {
			if sleep(ctx, 5*time.Millisecond) != nil {
				return
			}
		}
	}
}

// close ends every connection and waits for their goroutines.
func (p *packets) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var conns []*packetConn
	for _, l := range p.all() {
		l.mu.Lock()
		for c := range l.conns {
			conns = append(conns, c)
		}
		l.mu.Unlock()
	}
	for _, c := range conns { // without locks: TLS may take a while to close
		_ = c.Close()
	}
	p.wg.Wait()
}
