// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"
)

// maxPeerConns is how many connections one peer may have open: of the mesh's own protocols together, and of each other
// one, so that none of these takes the mesh's.
const maxPeerConns = 16

// maxConns is how many connections all peers together may have open that they opened: in a group of 500 each has three at most of
// itself. Beyond that they share by who admitted them: who has most beyond its share loses one to who has less.
const maxConns = 2048

// connections are what peers have open, in one direction.
type connections struct {
	most  int
	share func(total int, wants map[string]int) map[string]int

	mu     sync.Mutex
	closed bool
	open   map[*peerConn]struct{}
	counts map[budget]int
}

// budget is what connections are counted by.
type budget struct{ peer, protocol string } // "" for the mesh's own protocols

func budgetOf(peer, protocol string) budget {
	if slices.Contains(ownProtocols(), protocol) {
		protocol = ""
	}
	return budget{peer, protocol}
}

func newConnections(most int, share func(int, map[string]int) map[string]int) *connections {
	return &connections{most: most, share: share, open: map[*peerConn]struct{}{}, counts: map[budget]int{}}
}

// hold registers a connection until it is closed, when ended is called, perhaps more than once, or returns an error: errBusyPeer, or net.ErrClosed
// after close.
func (c *connections) hold(conn net.Conn, peer Caller, protocol string, ended func()) (*peerConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := budgetOf(peer.ClusterID, protocol)
	switch {
	case c.closed:
		return nil, net.ErrClosed
	case c.counts[b] >= maxPeerConns, len(c.open) >= c.most && !c.makeWayLocked(peer.ClusterID):
		return nil, errBusyPeer
	}
	held := &peerConn{Conn: conn, peer: peer, protocol: protocol, in: c, ended: ended}
	c.counts[b]++
	c.open[held] = struct{}{}
	return held, nil
}

// makeWayLocked ends a connection of a peer that has more than its share, if another one is about to have no more than its own.
func (c *connections) makeWayLocked(peer string) bool {
	has := map[string]int{peer: 1}
	for held := range c.open {
		has[held.peer.ClusterID]++
	}
	shares := c.share(c.most, has)
	if has[peer] > shares[peer] {
		return false
	}
	var most *peerConn
	for held := range c.open {
		if id := held.peer.ClusterID; has[id] > shares[id] && (most == nil || has[id]-shares[id] > has[most.peer.ClusterID]-shares[most.peer.ClusterID]) {
			most = held
		}
	}
	if most == nil {
		return false
	}
	c.releaseLocked(most)
	go abort(most)
	return true
}

func (c *connections) release(held *peerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(held)
}

func (c *connections) releaseLocked(held *peerConn) {
	if _, ok := c.open[held]; !ok {
		return // it gave way
	}
	delete(c.open, held)
	b := budgetOf(held.peer.ClusterID, held.protocol)
	if c.counts[b]--; c.counts[b] <= 0 {
		delete(c.counts, b)
	}
}

// disconnect closes the connections of a peer whose pin ended, and does not wait for it.
func (c *connections) disconnect(peer string) {
	for _, held := range c.list() {
		switch {
		case held.peer.ClusterID != peer:
		case held.protocol == protocolRPC:
			time.AfterFunc(rpcGrace, func() { abort(held) })
		default:
			abort(held)
		}
	}
}

// close closes all, and holds none from then on.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, held := range c.list() {
		_ = held.Close()
	}
}

func (c *connections) list() []*peerConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*peerConn, 0, len(c.open))
	for held := range c.open {
		list = append(list, held)
	}
	return list
}

// peerConn is a connection that counts until it is closed.
type peerConn struct {
	net.Conn
	peer     Caller
	protocol string
	in       *connections
	ended    func()
	once     sync.Once
}

// Close tells what serves the connection first, since the goodbye of TLS may take a while.
func (c *peerConn) Close() error {
	c.ended()
	err := c.Conn.Close()
	c.once.Do(func() { c.in.release(c) })
	return err
}

// NetConn is what the connection runs over, as of a tls.Conn.
func (c *peerConn) NetConn() net.Conn {
	if conn, ok := c.Conn.(*tls.Conn); ok {
		return conn.NetConn()
	}
	return c.Conn
}

// abort closes a connection without a goodbye, for which a peer that takes nothing would have us wait for seconds.
func abort(conn net.Conn) {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		_ = over.NetConn().Close()
	}
	_ = conn.Close()
}
