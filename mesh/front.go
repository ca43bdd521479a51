// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/roster-mesh/roster/mesh/lobby"
)

// protocolGroup is what the agents of one cluster speak to each other.
const protocolGroup = "roster-raft/1"

const (
	// forwardedByte is the first byte of a connection that another agent of this cluster forwards: it must not be
	// forwarded once more. TLS begins with another one.
	forwardedByte byte = 0x01
	// maxForwarded is how many connections are forwarded at a time.
	maxForwarded = 512
	// maxSiblings is how many connections of other agents of this cluster are served at a time.
	maxSiblings = 64
)

// errNotSibling: the other side is no agent of this cluster.
var errNotSibling = errors.New("the other side does not have this cluster's key")

// Front is the port of an agent that is one of several of its cluster, of which one at a time is active: it has the
// cluster's place in the mesh. What the agents of the cluster say to each other is served here: both sides have the key of
// the cluster. Everything else goes to the active agent: to the listener of Open, where that is this one, or to the port of
// the other, unread, so that it is that one which authenticates the peer. Of a connection that is forwarded no more is
// looked at than the protocols that a TLS handshake opens with.
type Front struct {
	listener  net.Listener
	network   Network
	server    *tls.Config
	client    *tls.Config
	active    func() (address string, here bool)
	siblings  *chanListener
	strangers lobby.Lobby

	mu        sync.Mutex
	listening *chanListener         // nil while this agent is not active
	changed   chan struct{}         // closed when it opens
	served    map[net.Conn]struct{} // siblings
	forwarded map[net.Conn]struct{} // both ends of each
	ended     bool
	wg        sync.WaitGroup
}

// NewFront takes over the listener. active tells which agent of this cluster is active: this one (here), or the one
// whose port has that address, "" when none is known.
func NewFront(id Identity, listener net.Listener, active func() (address string, here bool)) (*Front, error) {
	certificate, err := id.certificate()
	if err != nil {
		return nil, err
	}
	verify := func(state tls.ConnectionState) error { return sameKey(state, id.PublicKey()) }
	server := &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocolGroup}, SessionTicketsDisabled: true, VerifyConnection: verify,
	}
	client := server.Clone()
	client.InsecureSkipVerify = true // replaced by VerifyConnection: a key, not a path
	return &Front{
		listener: listener, network: TCP{}, server: server, client: client, active: active,
		siblings: newChanListener(listener.Addr()), changed: make(chan struct{}),
		served: map[net.Conn]struct{}{}, forwarded: map[net.Conn]struct{}{},
	}, nil
}

// sameKey accepts who has the cluster's own key.
func sameKey(state tls.ConnectionState, own ed25519.PublicKey) error {
	key, err := peerKey(state)
	if err == nil && (!own.Equal(key) || state.NegotiatedProtocol != protocolGroup) {
		err = errNotSibling
	}
	return err
}

// Run serves until the context ends, and returns when all connections have ended.
func (f *Front) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, f.close)
	defer func() {
		stop()
		f.close()
		f.wg.Wait()
	}()
	return accept(ctx, f.listener, func(raw net.Conn) { f.wg.Go(func() { f.admit(ctx, raw) }) })
}

// close ends the listener and all connections.
func (f *Front) close() {
	_ = f.listener.Close()
	_ = f.siblings.Close()
	f.strangers.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for _, conns := range []map[net.Conn]struct{}{f.served, f.forwarded} {
		for c := range conns {
			_ = c.Close()
		}
	}
}

// Close gives the port back where Run is not called.
func (f *Front) Close() error {
	f.close()
	return nil
}

// Open makes this agent the active one: what other clusters open from now on comes here, until the listener is closed.
func (f *Front) Open() net.Listener {
	place := newChanListener(f.listener.Addr())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listening = place
	close(f.changed)
	f.changed = make(chan struct{})
	return &activeListener{place, f}
}

type activeListener struct {
	*chanListener
	front *Front
}

func (o *activeListener) Close() error {
	o.front.mu.Lock()
	if o.front.listening == o.chanListener {
		o.front.listening = nil
	}
	o.front.mu.Unlock()
	return o.chanListener.Close()
}

// Siblings are the other agents of this cluster.
func (f *Front) Siblings() *Siblings { return &Siblings{f.siblings, f} }

// Siblings listens to the other agents of this cluster, and dials them.
type Siblings struct {
	*chanListener
	front *Front
}

// Dial connects to another agent of this cluster, at the address of its port.
func (s *Siblings) Dial(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout) //nolint:forbidigo // raft has no context
	defer cancel()
	raw, err := s.front.network.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	conn := tls.Client(raw, s.front.client)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

// admit finds out what a connection is for.
func (f *Front) admit(ctx context.Context, raw net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	slot, _ := f.strangers.Enter(raw, cancel)
	if slot == nil {
		return
	}
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	protocols, whole, hops, err := f.readHello(ctx, raw)
	switch {
	case err != nil:
		f.strangers.Leave(slot)
		_ = raw.Close()
	case slices.Contains(protocols, protocolGroup):
		conn := tls.Server(whole, f.server)
		err := conn.HandshakeContext(ctx)
		f.strangers.Leave(slot)
		if err != nil || !f.hold(f.served, maxSiblings, raw) {
			_ = raw.Close()
			return
		}
		_ = raw.SetDeadline(time.Time{})
		f.siblings.deliver(&frontConn{conn, raw, f})
	default:
		f.toActive(ctx, whole, hops, func() { f.strangers.Leave(slot) })
	}
}

// readHello reads the start of a connection; hops says that another agent has forwarded it.
func (f *Front) readHello(ctx context.Context, raw net.Conn) (protocols []string, whole net.Conn, hops bool, err error) {
	var first [1]byte
	if _, err := io.ReadFull(raw, first[:]); err != nil {
		return nil, nil, false, err
	}
	if first[0] == forwardedByte {
		protocols, whole, err = readHello(ctx, raw)
		return protocols, whole, true, err
	}
	again := &replayedConn{Conn: raw, from: io.MultiReader(bytes.NewReader(first[:]), raw)}
	protocols, whole, err = readHello(ctx, again)
	return protocols, whole, false, err
}

// toActive hands a connection to the mesh of this agent, or to the port of the active one. An agent that is about to be
// active is waited for.
func (f *Front) toActive(ctx context.Context, conn net.Conn, hops bool, settled func()) {
	address, place := f.awaitActive(ctx)
	switch {
	case place != nil:
		defer settled()                   // nobody accepts before the mesh has started
		_ = conn.SetDeadline(time.Time{}) // the mesh has its own
		select {
		case place.conns <- conn:
		case <-place.done:
			_ = conn.Close()
		case <-ctx.Done():
			_ = conn.Close()
		}
	case address == "" || hops:
		settled()
		_ = conn.Close()
	default:
		f.forward(ctx, conn, address, settled)
	}
}

// awaitActive returns the listener when this agent is active, or the address of the one that is.
func (f *Front) awaitActive(ctx context.Context) (address string, place *chanListener) {
	for {
		f.mu.Lock()
		place, changed := f.listening, f.changed
		f.mu.Unlock()
		if place != nil {
			return "", place
		}
		if address, here := f.active(); !here {
			return address, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", nil
		}
	}
}

// forward connects two ends until one of them ends. It counts as a stranger as long as a handshake may take.
func (f *Front) forward(ctx context.Context, conn net.Conn, address string, settled func()) {
	defer conn.Close()
	young := time.AfterFunc(handshakeTimeout, settled)
	defer func() {
		if young.Stop() {
			settled()
		}
	}()
	to, err := f.network.Dial(ctx, address)
	if err != nil {
		return
	}
	defer to.Close()
	if !f.hold(f.forwarded, 2*maxForwarded, conn, to) {
		return
	}
	defer f.release(f.forwarded, conn, to)
	_ = conn.SetDeadline(time.Time{})
	if _, err := to.Write([]byte{forwardedByte}); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { copyBytes(to, conn) })
	copyBytes(conn, to)
	wg.Wait()
}

// copyBytes ends both connections when one of them ends.
func copyBytes(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// hold keeps connections that close is to end; false when there are too many.
func (f *Front) hold(in map[net.Conn]struct{}, most int, conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || len(in)+len(conns) > most {
		return false
	}
	for _, c := range conns {
		in[c] = struct{}{}
	}
	return true
}

func (f *Front) release(in map[net.Conn]struct{}, conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(in, c)
	}
}

// frontConn is a sibling's connection, which is held until it is closed.
type frontConn struct {
	net.Conn
	raw   net.Conn
	front *Front
}

func (c *frontConn) Close() error {
	c.front.release(c.front.served, c.raw)
	return c.Conn.Close()
}
