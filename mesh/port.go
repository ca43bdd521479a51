// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// handshakeTimeout is how long a stranger may keep a connection.
	handshakeTimeout = 5 * time.Second
	// maxPeerConns is how many accepted connections one peer may have open.
	maxPeerConns = 16
)

// handler takes over a connection of a pinned peer; it may return before the
// connection ends, and closes it.
type handler func(peer string, conn net.Conn)

// port is the one listener: it authenticates and then dispatches by ALPN.
type port struct {
	listener net.Listener
	config   *tls.Config
	auth     *authenticator
	handlers map[string]handler
	farewell func(key ed25519.PublicKey) []byte
	metrics  *metrics

	strangers lobby

	mu     sync.Mutex
	closed bool
	peers  map[string]int
	conns  map[*peerConn]struct{}
	wg     sync.WaitGroup
}

func newPort(l net.Listener, auth *authenticator, m *metrics) *port {
	return &port{
		listener: l,
		config:   auth.server(),
		auth:     auth,
		handlers: map[string]handler{},
		farewell: func(ed25519.PublicKey) []byte { return nil },
		metrics:  m,
		peers:    map[string]int{},
		conns:    map[*peerConn]struct{}{},
	}
}

// serve accepts until the context ends, then closes every connection that it
// accepted and waits for their goroutines.
func (p *port) serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.close)
	defer func() {
		stop()
		p.close()
		p.wg.Wait()
	}()
	var wait backoff
	for {
		raw, err := p.listener.Accept()
		switch {
		case err == nil:
			wait.reset()
			p.wg.Go(func() { p.admit(ctx, p.metrics.meter(raw)) })
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		default: // for example: out of file descriptors
			if sleep(ctx, wait.next(time.Second)) != nil {
				return nil
			}
		}
	}
}

// close ends the listener and all connections.
func (p *port) close() {
	p.mu.Lock()
	p.closed = true
	conns := make([]net.Conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.strangers.close()
	for _, c := range conns {
		_ = c.Close()
	}
}

func (p *port) admit(ctx context.Context, raw net.Conn) {
	slot, evicts := p.strangers.enter(raw)
	if slot == nil {
		return
	}
	if evicts {
		p.metrics.drop(dropEvicted)
	}
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	conn := tls.Server(raw, p.config)
	err := conn.HandshakeContext(ctx)
	evicted := p.strangers.leave(slot)
	var id string
	if err == nil {
		id, err = p.auth.peer(conn.ConnectionState())
	}
	if errors.Is(err, ErrRemoved) && !evicted {
		p.metrics.drop(dropRemoved)
		if key, err := peerKey(conn.ConnectionState()); err == nil {
			p.bidFarewell(conn, key)
			return
		}
	}
	if err != nil {
		_ = raw.Close()
		if reason := handshakeReason(err); !evicted {
			p.metrics.drop(reason)
		}
		return
	}
	serve, ok := p.handlers[conn.ConnectionState().NegotiatedProtocol]
	if !ok {
		_ = raw.Close()
		p.metrics.drop(dropHandshake)
		return
	}
	held := p.hold(id, conn)
	if held == nil {
		_ = raw.Close()
		p.metrics.drop(dropPeerLimit)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	serve(id, held)
}

// hold registers a peer's connection, or returns nil when it has too many.
func (p *port) hold(id string, conn *tls.Conn) *peerConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.peers[id] >= maxPeerConns {
		return nil
	}
	c := &peerConn{Conn: conn, peer: id, port: p}
	p.peers[id]++
	p.conns[c] = struct{}{}
	return c
}

func (p *port) release(c *peerConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	if p.peers[c.peer]--; p.peers[c.peer] <= 0 {
		delete(p.peers, c.peer)
	}
}

// peerConn is an accepted connection that counts until it is closed.
type peerConn struct {
	net.Conn
	peer string
	port *port
	once sync.Once
}

func (c *peerConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.port.release(c) })
	return err
}
