// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"time"
)

// A removed key ends every connection of its cluster at once, and opens none. One thing is still said to it, so that
// its owner learns why: whoever completes a handshake with a removed key for the packet protocol gets one frame with
// the statement by which it was removed, and then the connection ends.

const (
	// maxRemovalNotice bounds that statement.
	maxRemovalNotice = 4 << 10
	// rpcGrace is how long a gRPC connection outlives its pin, so that the answer to the call that ended it arrives.
	// Calls that begin in this time are refused.
	rpcGrace = time.Second
)

// disconnectUnpinned ends all connections of clusters whose pins ended.
func (m *Mesh) disconnectUnpinned() {
	for _, id := range m.options.Trust.TakeEnded() {
		m.transport.packets.disconnect(id)
		m.clients.disconnect(id)
		m.port.conns.disconnect(id)
		m.server.forget(id)
		m.throttle.Forget(id)
		m.pulls.forget(id)
		m.joins.forget(id)
		m.broadcaster.forget(id)
		m.forgetLogged(id)
		m.mu.Lock()
		delete(m.removedBy, id)
		m.mu.Unlock()
	}
}

// forget lets go of what is kept of a peer whose pin ended, as the others of that name do: or members that come and go
// would add up.
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
	b.relay.Forget(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.choosers, id)
}

// disconnect drops the queue of a peer and closes its connections.
func (p *packets) disconnect(id string) {
	p.mu.Lock()
	l := p.queues[id]
	delete(p.queues, id)
	p.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	l.clearLocked()
	conns := make([]net.Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c.Conn)
	}
	l.mu.Unlock()
	for _, c := range conns {
		abort(c)
	}
}

func (c *clients) disconnect(id string) {
	c.mu.Lock()
	channel := c.channels[id]
	delete(c.channels, id)
	c.mu.Unlock()
	if channel != nil {
		_ = channel.Close()
	}
	c.opened.disconnect(id)
}

func (s *server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.limits, id)
	s.pulls.Forget(id)
}

// sendRemovalNotice tells the owner of a removed key why it is refused.
func (p *port) sendRemovalNotice(conn *tls.Conn, key ed25519.PublicKey) {
	if conn.ConnectionState().NegotiatedProtocol == protocolPacket {
		if why := p.removalNotice(key); len(why) > 0 && len(why) <= maxRemovalNotice {
			flush(conn, appendFrame(nil, frameRemoved, why))
		}
	}
	_ = conn.Close()
}

// RemovedBy says that a member has told us that our key was removed.
func (m *Mesh) RemovedBy(clusterID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removedBy[clusterID]
}

// takeRemovalNotice takes the removal for which a member refuses us, which the member vouches for.
func (m *Mesh) takeRemovalNotice(peer string, why []byte) {
	m.mu.Lock()
	m.removedBy[peer] = true
	m.mu.Unlock()
	_, _, _ = m.merge(why, peer, peer)
}
