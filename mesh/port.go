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

	"github.com/roster-mesh/roster/mesh/lobby"
	"github.com/roster-mesh/roster/mesh/pace"
	"github.com/roster-mesh/roster/mesh/trust"
)

// handshakeTimeout is how long a stranger may keep a connection.
const handshakeTimeout = 5 * time.Second

// port is the one listener: it authenticates and then dispatches by ALPN.
type port struct {
	listener      net.Listener
	config        *tls.Config
	auth          *authenticator
	handlers      map[string]handler
	removalNotice func(key ed25519.PublicKey) []byte
	metrics       *metrics

	strangers lobby.Lobby
	conns     *connections
	wg        sync.WaitGroup
}

func newPort(l net.Listener, auth *authenticator, m *metrics) *port {
	return &port{
		listener:      l,
		config:        auth.server(),
		auth:          auth,
		handlers:      map[string]handler{},
		removalNotice: func(ed25519.PublicKey) []byte { return nil },
		metrics:       m,
		conns:         newConnections(maxConns, auth.trust.Share),
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
	return accept(ctx, p.listener, func(raw net.Conn) { p.wg.Go(func() { p.admit(ctx, p.metrics.meter(raw)) }) })
}

// accept accepts connections until the context ends, or the listener is closed, which is an error.
func accept(ctx context.Context, listener net.Listener, each func(net.Conn)) error {
	var wait pace.Backoff
	for {
		raw, err := listener.Accept()
		switch {
		case err == nil:
			wait.Reset()
			each(raw)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it is to end
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		default: // for example: out of file descriptors
			_ = sleep(ctx, wait.Next(time.Second))
		}
	}
}

// close ends the listener and all connections.
func (p *port) close() {
	_ = p.listener.Close()
	p.strangers.Close()
	p.conns.close()
}

func (p *port) admit(ctx context.Context, raw net.Conn) {
	stranger, cancel := context.WithCancel(ctx)
	defer cancel()
	slot, evicts := p.strangers.Enter(raw, cancel)
	if evicts {
		p.metrics.drop(dropEvicted)
	}
	if slot == nil {
		return
	}
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	conn := tls.Server(raw, p.config)
	err := conn.HandshakeContext(stranger)
	var from Caller
	if err == nil {
		from, err = p.auth.caller(conn.ConnectionState())
	}
	if err == nil && from.ClusterID == "" {
		p.serveUnpinned(stranger, from, conn)
		p.strangers.Leave(slot)
		return
	}
	evicted := p.strangers.Leave(slot)
	if errors.Is(err, trust.ErrRemoved) && !evicted {
		p.metrics.drop(dropRemoved)
		p.sendRemovalNotice(conn, from.Key)
		return
	}
	if err != nil {
		_ = raw.Close()
		if reason := handshakeReason(err); !evicted {
			p.metrics.drop(reason)
		}
		return
	}
	_ = raw.SetDeadline(time.Time{})
	p.servePeer(ctx, from, conn)
}

// servePeer hands a member's connection to what serves its protocol.
func (p *port) servePeer(ctx context.Context, from Caller, conn *tls.Conn) {
	protocol := conn.ConnectionState().NegotiatedProtocol
	serve, ok := p.handlers[protocol]
	if !ok {
		_ = conn.NetConn().Close()
		p.metrics.drop(dropHandshake)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	held, err := p.conns.hold(conn, from, protocol, cancel)
	if err != nil {
		cancel()
		_ = conn.NetConn().Close()
		p.metrics.drop(dropPeerLimit)
		return
	}
	if !from.pinnedIn(p.auth.trust) { // it was removed before it was held
		_ = held.Close()
		return
	}
	serve(ctx, from, held)
}

// serveUnpinned does that for a caller whose key is not pinned, which stays a stranger.
func (p *port) serveUnpinned(ctx context.Context, from Caller, conn *tls.Conn) {
	ctx, cancel := context.WithTimeout(ctx, unpinnedTimeout)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(unpinnedTimeout))
	p.handlers[conn.ConnectionState().NegotiatedProtocol](ctx, from, conn)
}
