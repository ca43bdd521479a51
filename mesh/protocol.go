// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/roster-mesh/roster/mesh/trust"
)

// unpinnedTimeout is how long a caller whose key is not pinned may keep a connection.
const unpinnedTimeout = 30 * time.Second

// errBusyPeer is returned for one connection more than a protocol may have to a member.
var errBusyPeer = errors.New("too many connections to this member")

// Handler serves a protocol of the port that is not the mesh's own, see Options.Protocols.
type Handler struct {
	// Serve is called for each connection, in a goroutine of its own, and the connection is closed when it returns. When
	// the mesh ends, or the caller's pin, or a stranger's time, the connection is closed and ctx ends; Serve must return
	// then, for Run waits, and the connection counts until it does.
	// A cluster has at most 16 connections of each protocol open, and 16 of the mesh's own. Where a [Front] forwards them
	// to the active agent, all clusters together have 512.
	Serve func(ctx context.Context, from Caller, conn net.Conn)
	// Unpinned also lets in callers whose key is not pinned. They stay among the strangers: 128 at a time, handshakes
	// included, of which one more ends the oldest, and each for 30 seconds at most. Serve decides whether it serves a removed key, see Caller.Removed.
	Unpinned bool
}

// Caller is who opened a connection. TLS has proven that it has the key.
type Caller struct {
	ClusterID string // "" when the key is not pinned
	Key       ed25519.PublicKey
	// Removed says, when the key is not pinned, that a member has removed it of some cluster, perhaps of one that there
	// is not: any member can say that of any key.
	Removed bool
}

// pinnedIn says whether the key is pinned, still, for the cluster that it was pinned for when it called.
func (c Caller) pinnedIn(t *trust.Table) bool { return t.IsPinned(c.ClusterID, c.Key) }

// Dial opens a connection to a member that speaks one of Options.Protocols. The caller closes it; it is closed, too, when
// the member's pin ends or the mesh does. A dial takes at most ten seconds. A member that does not speak it is told by
// ErrProtocol.
func (m *Mesh) Dial(ctx context.Context, clusterID, protocol string) (net.Conn, error) {
	if _, ok := m.options.Protocols[protocol]; !ok {
		return nil, fmt.Errorf("dial %s: protocol %q is not in Options.Protocols", clusterID, protocol)
	}
	if !m.options.Trust.IsPeer(clusterID) {
		return nil, ErrUnpinned
	}
	conn, err := m.clients.dial(ctx, clusterID, protocol)
	if err != nil {
		return nil, err
	}
	to := Caller{ClusterID: clusterID}
	if conn, ok := conn.(*tls.Conn); ok {
		to.Key, _ = peerKey(conn.ConnectionState())
	}
	held, err := m.clients.opened.hold(conn, to, protocol, func() {})
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s: %w", clusterID, err)
	}
	if !to.pinnedIn(m.options.Trust) { // it was removed meanwhile
		_ = held.Close()
		return nil, ErrUnpinned
	}
	return held, nil
}

// handler takes over a connection whose other end is known, and closes it. It may return before that.
type handler func(ctx context.Context, from Caller, conn net.Conn)

// closing is a handler that has served when it returns.
func (h Handler) closing(ctx context.Context, from Caller, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	h.Serve(ctx, from, conn)
}

// ownProtocols are those that the mesh and its [Front] speak.
func ownProtocols() []string {
	return []string{protocolPacket, protocolStream, protocolRPC, protocolGroup}
}

// checkProtocols refuses what cannot be served, by name.
func checkProtocols(protocols map[string]Handler) error {
	for _, name := range slices.Sorted(maps.Keys(protocols)) {
		switch {
		case name == "" || len(name) > 255:
			return fmt.Errorf("%w: protocol %q: the name must have 1 to 255 bytes", errOptions, name)
		case slices.Contains(ownProtocols(), name):
			return fmt.Errorf("%w: protocol %q is spoken by the mesh itself", errOptions, name)
		case protocols[name].Serve == nil:
			return fmt.Errorf("%w: protocol %q: no Serve", errOptions, name)
		}
	}
	return nil
}
