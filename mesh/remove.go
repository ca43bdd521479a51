// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"time"
)

// A removed key ends every connection of its cluster at once, and opens none. One thing is still said to it, so that
// its owner learns why: whoever completes a handshake with a removed key for the packet protocol gets one frame with
// the statement by which it was removed, and then the connection ends.

const (
	// maxFarewell bounds that statement.
	maxFarewell = 4 << 10
	// rpcGrace is how long a gRPC connection outlives its pin, so that the answer to the call that ended it arrives.
	// Calls that begin in this time are refused.
	rpcGrace = time.Second
)

// dismiss ends all connections of clusters whose pins ended.
func (m *Mesh) dismiss() {
	for _, id := range m.options.Trust.takeEnded() {
		m.transport.packets.dismiss(id)
		m.clients.dismiss(id)
		m.port.dismiss(id)
		m.server.forget(id)
		m.pace.forget(id)
		m.pulls.forget(id)
		m.joins.forget(id)
		m.spreader.forget(id)
		m.settle(id)
		m.mu.Lock()
		delete(m.dismissals, id)
		m.mu.Unlock()
	}
}

// forget lets go of what is kept of a peer whose pin ended, as the others of that name do: or members that come and go
// would add up.
func (p *pace) forget(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, peer)
}

func (p *puller) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, id)
}

func (j *joiner) forget(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.members, id)
}

func (b *broadcaster) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.chose, id)
	delete(b.shares, id)
}

// dismiss drops the line of a peer with all that waits there.
func (p *packets) dismiss(id string) {
	p.mu.Lock()
	l := p.lines[id]
	delete(p.lines, id)
	p.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	l.clear()
	conns := make([]net.Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

func (c *clients) dismiss(id string) {
	c.mu.Lock()
	channel := c.channels[id]
	delete(c.channels, id)
	c.mu.Unlock()
	if channel != nil {
		_ = channel.Close()
	}
}

// dismiss closes what the peer has dialled.
func (p *port) dismiss(id string) {
	p.mu.Lock()
	var conns []*peerConn
	for c := range p.conns {
		if c.peer == id {
			conns = append(conns, c)
		}
	}
	p.mu.Unlock()
	for _, c := range conns {
		if held, ok := c.Conn.(*tls.Conn); ok && held.ConnectionState().NegotiatedProtocol == protocolRPC {
			time.AfterFunc(rpcGrace, func() { _ = c.Close() })
			continue
		}
		_ = c.Close()
	}
}

func (s *server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tickets, id)
	s.pulls.forget(id)
}

// bidFarewell tells the owner of a removed key why it is refused.
func (p *port) bidFarewell(conn *tls.Conn, key ed25519.PublicKey) {
	if conn.ConnectionState().NegotiatedProtocol == protocolPacket {
		if why := p.farewell(key); len(why) > 0 && len(why) <= maxFarewell {
			flush(conn, appendFrame(nil, frameRemoved, why))
		}
	}
	_ = conn.Close()
}

// Tell hands a message to a member and returns when that has merged it.
func (m *Mesh) Tell(ctx context.Context, clusterID string, msg []byte) error {
	if !m.options.Trust.isPeer(clusterID) {
		return ErrUnpinned
	}
	err := m.clients.tell(ctx, clusterID, msg)
	if err != nil { // perhaps because it refuses us: then it answers a frame with the reason
		m.transport.packets.send(clusterID, frameMessage, msg)
	}
	return err
}

// DismissedBy says that a member has told us that our key was removed.
func (m *Mesh) DismissedBy(clusterID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dismissals[clusterID]
}

// dismissed takes a member's reason for refusing us, and its word for it.
func (m *Mesh) dismissed(peer string, why []byte) {
	m.mu.Lock()
	m.dismissals[peer] = true
	m.mu.Unlock()
	m.merge(why, peer, peer)
}

// told takes a message that a peer handed over.
func (m *Mesh) told(peer string, msg []byte) error {
	if !m.options.Trust.isPeer(peer) { // it was removed between its call and its message
		return ErrUnpinned
	}
	isFresh, pull, err := m.options.State.Merge(msg, peer)
	if err != nil || isFresh {
		m.pace.wait(peer, messageCost(msg))
	}
	if err != nil {
		m.metrics.messages.WithLabelValues("rejected").Inc()
		return err
	}
	if isFresh {
		m.spreader.spread([][]byte{msg}, peer)
	}
	if pull {
		m.pulls.request(peer)
	}
	return nil
}
