// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// Why something was dropped: the values of the label reason.
const (
	dropGarbage     = "garbage"     // not TLS
	dropHandshake   = "handshake"   // TLS, but not ours: version, protocol, certificate
	dropUnpinned    = "unpinned"    // a key that no pin knows
	dropRemoved     = "removed"     // a key that was removed
	dropTimeout     = "timeout"     // a handshake that did not finish in time
	dropGone        = "gone"        // the other end went away during the handshake
	dropEvicted     = "evicted"     // a handshake that gave way to a newer one
	dropPeerLimit   = "peer_limit"  // more connections or calls than one peer may have
	dropOversized   = "oversized"   // a frame, stream or digest above its bound
	dropMalformed   = "malformed"   // bytes of a pinned peer that do not decode
	dropForged      = "forged"      // a membership claim that cannot be true
	dropQueueFull   = "queue_full"  // a frame for a peer that takes them too slowly
	dropPanic       = "panic"       // a call or connection of which Serve panicked
	dropUnreachable = "unreachable" // a frame for a peer that cannot be dialled
)

// metrics of one mesh. No label has a value that a peer chooses.
type metrics struct {
	drops    *prometheus.CounterVec
	messages *prometheus.CounterVec
	pulls    *prometheus.CounterVec
	members  *prometheus.GaugeVec
	bytes    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roster_mesh_drops_total", Help: "Connections, frames and calls that were dropped.",
		}, []string{"reason"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roster_mesh_messages_total", Help: "Replicated messages received, by what they turned out to be: fresh, known or rejected.",
		}, []string{"result"}),
		pulls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roster_mesh_pulls_total", Help: "Deltas pulled from other members: fresh, empty or failed.",
		}, []string{"result"}),
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "roster_mesh_members", Help: "Other pinned clusters by state.",
		}, []string{"state"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roster_mesh_bytes_total", Help: "Bytes on mesh connections, TLS included: sent or received.",
		}, []string{"direction"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.drops, m.messages, m.pulls, m.members, m.bytes} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) drop(reason string) { m.drops.WithLabelValues(reason).Inc() }

// dropped counts what a peer sent and we refused. An error of the connection
// itself is not one.
func (m *metrics) dropped(err error) {
	switch {
	case errors.Is(err, errOversized):
		m.drop(dropOversized)
	case errors.Is(err, errMalformed):
		m.drop(dropMalformed)
	case errors.Is(err, errForged):
		m.drop(dropForged)
	}
}

// handshakeReason names why an accepted connection did not become a peer.
func handshakeReason(err error) string {
	var notTLS tls.RecordHeaderError
	var netErr net.Error
	switch {
	case errors.Is(err, ErrUnpinned), errors.Is(err, errNoKey):
		return dropUnpinned
	case errors.As(err, &notTLS):
		return dropGarbage
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return dropTimeout
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return dropGone
	default:
		return dropHandshake
	}
}

// meteredConn counts the bytes of a connection.
type meteredConn struct {
	net.Conn
	sent, received prometheus.Counter
}

func (m *metrics) meter(c net.Conn) net.Conn {
	return &meteredConn{c, m.bytes.WithLabelValues("sent"), m.bytes.WithLabelValues("received")}
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(float64(n))
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(float64(n))
	return n, err
}
