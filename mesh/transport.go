// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/roster-mesh/roster/mesh/trust"
)

const (
	// memberPort is part of every member's constant address and means nothing.
	memberPort = 7946
	// maxDials run at a time; further packet dials fail and are tried again.
	maxDials = 64
	// maxRedials run at a time besides, for packets to members whose last dial
	// failed: many that cannot be reached must not hold up those that can.
	maxRedials = 16
	// maxPackets wait for memberlist before their connection's reader does.
	maxPackets = 256
)

// errBusy: the dial was not tried, which says nothing about the member.
var errBusy = errors.New("too many dials at a time")

// errNoName: memberlist asked for an address without a name. Addresses are
// derived from names here and lead nowhere by themselves.
var errNoName = errors.New("members are dialled by cluster ID only")

// memberAddr is the address that memberlist keeps for a cluster: constant, in
// the unique local range, and never dialled. memberlist refuses a new address
// of a live member, so a real one would lock out an agent that restarts
// elsewhere.
func memberAddr(id string) net.IP {
	sum := sha256.Sum256([]byte("roster/member-address/v1\x00" + id))
	ip := make(net.IP, net.IPv6len)
	copy(ip, sum[:])
	ip[0] = 0xfd // RFC 4193
	return ip
}

// transport is memberlist's NodeAwareTransport over authenticated connections.
// memberlist sees only what the check of frame.go and stream.go let through;
// user messages never pass through it: they go straight to message, together
// with the peer that they came from.
type transport struct {
	self    string
	trust   *trust.Table
	metrics *metrics
	dialer  *dialer
	packets *packets
	message func(peer string, kind byte, payload []byte)

	in       chan *memberlist.Packet
	streams  chan net.Conn
	requests chan dialRequest
	redials  chan dialRequest // to members whose last dial failed
	done     chan struct{}    // closed when run has ended

	mu   sync.Mutex
	open map[net.Conn]struct{} // streams that we dialled
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// dialRequest asks run for a connection. done is called once, or never after
// run has ended.
type dialRequest struct {
	id, protocol string
	timeout      time.Duration
	done         func(net.Conn, error)
}

func newTransport(self string, d *dialer, m *metrics) *transport {
	t := &transport{
		self:     self,
		trust:    d.auth.trust,
		metrics:  m,
		dialer:   d,
		packets:  newPackets(self, m),
		in:       make(chan *memberlist.Packet, maxPackets),
		streams:  make(chan net.Conn),
		requests: make(chan dialRequest, maxDials),
		redials:  make(chan dialRequest, maxRedials),
		done:     make(chan struct{}),
		open:     map[net.Conn]struct{}{},
	}
	t.packets.dial = t.dialPackets
	t.packets.handle = t.receive
	t.packets.trusted = t.trust.IsPeer
	return t
}

// run dials until the context ends, then closes what it opened.
func (t *transport) run(ctx context.Context) {
	var pools sync.WaitGroup
	pools.Go(func() { t.runDials(ctx, t.requests, maxDials) })
	pools.Go(func() { t.runDials(ctx, t.redials, maxRedials) })
	pools.Wait()
	close(t.done)
	t.packets.close()
	t.mu.Lock()
	streams := make([]net.Conn, 0, len(t.open))
	for c := range t.open {
		streams = append(streams, c)
	}
	t.mu.Unlock()
	for _, c := range streams {
		_ = c.Close()
	}
}

// runDials dials what is requested, so many at a time, until the context ends,
// and waits for the dials under way.
func (t *transport) runDials(ctx context.Context, requests <-chan dialRequest, limit int) {
	var dials sync.WaitGroup
	defer dials.Wait()
	slots := make(chan struct{}, limit)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-requests:
			select {
			case <-ctx.Done():
				continue
			case slots <- struct{}{}:
			}
			dials.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(ctx, r.timeout)
				defer cancel()
				r.done(t.dialer.dial(ctx, r.id, r.protocol))
			})
		}
	}
}

// dialPackets is called wherever a frame is sent, so it does not wait.
func (t *transport) dialPackets(id string, failed bool, done func(net.Conn, error)) {
	requests := t.requests
	if failed {
		requests = t.redials
	}
	select {
	case requests <- dialRequest{id, protocolPacket, packetDialTimeout, done}:
	default:
		done(nil, errBusy)
	}
}

// FinalAdvertiseAddr ignores what memberlist was configured with.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return memberAddr(t.self), memberPort, nil
}

// WriteToAddress queues a packet for a pinned member and returns at once. That
// the member cannot be reached is no error: packets may get lost.
func (t *transport) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	if addr.Name == "" {
		return time.Time{}, errNoName
	}
	if !t.trust.IsPeer(addr.Name) {
		return time.Time{}, ErrUnpinned
	}
	if len(b) > maxFrame {
		t.metrics.drop(dropOversized)
		return time.Time{}, errOversized
	}
	t.packets.send(addr.Name, framePacket, bytes.Clone(b))
	return time.Now(), nil
}

// DialAddressTimeout opens a memberlist stream to a pinned member.
func (t *transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if addr.Name == "" {
		return nil, errNoName
	}
	if !t.trust.IsPeer(addr.Name) {
		return nil, ErrUnpinned
	}
	results := make(chan dialled, 1)
	request := dialRequest{addr.Name, protocolStream, timeout, func(c net.Conn, err error) { results <- dialled{c, err} }}
	select {
	case t.requests <- request:
	case <-t.done:
		return nil, net.ErrClosed
	}
	var r dialled
	select {
	case r = <-results:
	case <-t.done: // every dial that was begun has answered
		select {
		case r = <-results:
		default:
			return nil, net.ErrClosed
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return t.track(r.conn)
}

func (t *transport) track(conn net.Conn) (net.Conn, error) {
	var stream *streamConn
	stream = guardStream(t.self, conn, t.metrics.dropped, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, stream)
	})
	t.mu.Lock()
	t.open[stream] = struct{}{}
	t.mu.Unlock()
	select {
	case <-t.done:
		_ = stream.Close()
		return nil, net.ErrClosed
	default:
		return stream, nil
	}
}

// acceptStream hands a peer's stream to memberlist.
func (t *transport) acceptStream(_ string, conn net.Conn) {
	select {
	case t.streams <- guardStream(t.self, conn, t.metrics.dropped, func() {}):
	case <-t.done:
		_ = conn.Close()
	}
}

// receive takes a frame from a peer; it is called by that peer's reader and
// makes it wait when memberlist is busy.
func (t *transport) receive(peer string, kind byte, payload []byte) {
	if kind != framePacket {
		t.message(peer, kind, payload)
		return
	}
	parts, err := splitPacket(payload)
	if err != nil {
		t.metrics.dropped(err)
		return
	}
	for _, part := range parts {
		part = bytes.Clone(part) // who keeps a part must not keep the frame
		if part[0] == mlUser {   // of earlier agents, which gossiped: type, our frame kind, payload
			t.message(peer, part[1], part[2:])
			continue
		}
		if err := checkClaim(t.self, part); err != nil {
			t.metrics.dropped(err)
			continue
		}
		packet := &memberlist.Packet{
			Buf:       part,
			From:      &net.TCPAddr{IP: memberAddr(peer), Port: memberPort},
			Timestamp: time.Now(),
		}
		select {
		case t.in <- packet:
		case <-t.done:
			return
		}
	}
}

// PacketCh is read by memberlist.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.in }

// StreamCh is read by memberlist.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown is called by memberlist; the mesh ends run by its context instead.
func (t *transport) Shutdown() error { return nil }

// WriteTo is not used: memberlist prefers WriteToAddress.
func (t *transport) WriteTo([]byte, string) (time.Time, error) { return time.Time{}, errNoName }

// DialTimeout is not used: memberlist prefers DialAddressTimeout.
func (t *transport) DialTimeout(string, time.Duration) (net.Conn, error) { return nil, errNoName }
