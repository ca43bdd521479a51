// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package meshtest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes of one direction are under way before Write blocks.
const window = 1 << 20

// conn is one end of a connection: two halves, one per direction.
type conn struct {
	read, write   *half
	local, remote net.Addr
}

func (c *conn) Read(p []byte) (int, error)  { return c.read.receive(p) }
func (c *conn) Write(p []byte) (int, error) { return c.write.send(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

func (c *conn) Close() error {
	return errors.Join(c.write.finish(), c.read.abandon())
}

func (c *conn) SetReadDeadline(t time.Time) error  { c.read.reader.set(c.read, t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.write.writer.set(c.write, t); return nil }
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// segment is what one Write sent; a nil payload is the end of the stream.
type segment struct {
	payload []byte
	due     time.Time
}

// half carries bytes one way.
type half struct {
	network *Network
	link    link

	mu       sync.Mutex
	cond     *sync.Cond
	segments []segment
	buffered int
	last     time.Time // when the newest segment is due: order is kept
	free     time.Time // when everything written so far has left
	finished bool      // the writer closed its end
	deaf     bool      // the reader closed its end
	deafAt   time.Time // when the writer can know it
	reader   deadline
	writer   deadline
}

func newHalf(n *Network, l link) *half {
	h := &half{network: n, link: l}
	h.cond = sync.NewCond(&h.mu)
	n.mu.Lock()
	n.halves[h] = struct{}{}
	n.mu.Unlock()
	return h
}

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cond.Broadcast()
}

func (h *half) send(p []byte) (int, error) {
	written := 0
	h.mu.Lock()
	defer h.mu.Unlock()
	for written < len(p) {
		switch {
		case h.finished:
			return written, net.ErrClosed
		case h.writer.passed():
			return written, os.ErrDeadlineExceeded
		case h.deaf && !time.Now().Before(h.deafAt) && h.network.open(link{h.link.to, h.link.from}):
			return written, syscall.EPIPE
		case h.deaf:
			return len(p), nil // nobody reads it and the writer cannot know yet
		case h.buffered >= window:
			h.cond.Wait()
		default:
			part := p[written:min(len(p), written+window-h.buffered)]
			h.pushLocked(append([]byte(nil), part...))
			written += len(part)
		}
	}
	return written, nil
}

// pushLocked queues a segment for when the link delivers it.
func (h *half) pushLocked(payload []byte) {
	if now := time.Now(); h.free.Before(now) {
		h.free = now
	}
	h.free = h.free.Add(h.network.transmission(len(payload)))
	due := h.free.Add(h.network.delay(h.link))
	if due.Before(h.last) {
		due = h.last
	}
	h.last = due
	h.segments = append(h.segments, segment{payload, due})
	h.buffered += len(payload)
	h.network.sent.Add(int64(len(payload)))
	h.cond.Broadcast()
}

func (h *half) receive(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if h.deaf {
			return 0, net.ErrClosed
		}
		if h.reader.passed() {
			return 0, os.ErrDeadlineExceeded
		}
		if len(h.segments) > 0 && h.network.open(h.link) {
			next := &h.segments[0]
			wait := time.Until(next.due)
			if wait <= 0 {
				if next.payload == nil {
					return 0, io.EOF
				}
				n := copy(p, next.payload)
				h.buffered -= n
				if next.payload = next.payload[n:]; len(next.payload) == 0 {
					h.segments = h.segments[1:]
				}
				h.cond.Broadcast()
				return n, nil
			}
			timer := time.AfterFunc(wait, h.wake)
			h.cond.Wait()
			timer.Stop()
			continue
		}
		h.cond.Wait()
	}
}

// finish is the writer's close: what was sent still arrives.
func (h *half) finish() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished {
		return net.ErrClosed
	}
	h.finished = true
	h.writer.stop()
	h.pushLocked(nil)
	h.settle()
	return nil
}

// abandon is the reader's close.
func (h *half) abandon() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deaf {
		return net.ErrClosed
	}
	h.deaf, h.deafAt = true, time.Now().Add(h.network.delay(link{h.link.to, h.link.from}))
	h.segments, h.buffered = nil, 0
	h.reader.stop()
	h.cond.Broadcast()
	h.settle()
	return nil
}

// settle lets the network forget a half that both ends have closed.
func (h *half) settle() {
	if h.finished && h.deaf {
		h.network.forget(h)
	}
}

// deadline is a point in time that wakes its half when it passes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(h *half, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.at = at
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, h.wake)
	}
	h.cond.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
