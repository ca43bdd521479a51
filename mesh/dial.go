// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// dialTimeout bounds all attempts of one dial.
	dialTimeout = 10 * time.Second
	// packetDialTimeout does that where another attempt will follow soon.
	packetDialTimeout = 3 * time.Second
	// dialStagger is the head start of an endpoint over the next one (RFC 8305).
	dialStagger = 250 * time.Millisecond
	// maxEndpoints of one member are tried; the list comes from that member.
	maxEndpoints = 8
	// maxAddresses are dialled in dialPeriod, beside those of members that answered: a list may name anybody's.
	maxAddresses, dialPeriod = 512, 10 * time.Second
)

// ErrNoEndpoint is returned when no endpoint is known for a member.
var ErrNoEndpoint = errors.New("no mesh endpoint is known for this cluster")

// Network is how the mesh reaches others. TCP is the real one.
type Network interface {
	Listen(ctx context.Context, addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// TCP is the Network of the operating system.
type TCP struct{}

// Listen opens a TCP port.
func (TCP) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", addr)
}

// Dial connects to host:port, resolving the host.
func (TCP) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// dialer opens authenticated connections by clusterID.
type dialer struct {
	network   Network
	auth      *authenticator
	endpoints func(clusterID string) []string
	metrics   *metrics
	report    func(clusterID string, err error) // the outcome of every dial
	budget    *pace.Budget                      // of addresses
}

type dialled struct {
	conn net.Conn
	err  error
}

// dial opens a connection to a member and reports the outcome, unless it is that the member lacks a protocol that is not the
// mesh's own: that says nothing of its being there.
func (d *dialer) dial(ctx context.Context, id, protocol string) (net.Conn, error) {
	conn, err := d.race(ctx, id, protocol)
	lacking := errors.Is(err, ErrProtocol) && !slices.Contains(ownProtocols(), protocol)
	if !lacking && !errors.Is(err, errBusy) && !errors.Is(ctx.Err(), context.Canceled) {
		d.report(id, err)
	}
	return conn, err
}

// race tries the member's endpoints, each with a small head start over the next. The first that proves to be that member
// wins; the others are closed before race returns.
func (d *dialer) race(ctx context.Context, id, protocol string) (net.Conn, error) {
	endpoints := d.endpoints(id)
	endpoints = endpoints[:min(len(endpoints), maxEndpoints)]
	if len(endpoints) == 0 {
		return nil, ErrNoEndpoint
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	results := make(chan dialled, len(endpoints))
	for i, endpoint := range endpoints {
		go func() {
			conn, err := d.attempt(ctx, time.Duration(i)*dialStagger, id, protocol, endpoint)
			results <- dialled{conn, err}
		}()
	}
	var won net.Conn
	var errs []error
	for range endpoints {
		switch r := <-results; {
		case r.err != nil:
			errs = append(errs, r.err)
		case won == nil:
			won = r.conn
			cancel()
		default:
			_ = r.conn.Close() // came second
		}
	}
	if won == nil {
		return nil, errors.Join(errs...)
	}
	return won, nil
}

func (d *dialer) attempt(ctx context.Context, wait time.Duration, id, protocol, endpoint string) (net.Conn, error) {
	if err := sleep(ctx, wait); err != nil {
		return nil, err
	}
	// Only what is dialled counts: mostly the first address answers, and the others are left alone.
	if taken, _ := d.budget.Take(id, false); !taken {
		return nil, errBusy
	}
	raw, err := d.network.Dial(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", endpoint, err)
	}
	conn := tls.Client(d.metrics.meter(raw), d.auth.client(id, protocol))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if refusesProtocol(err) {
			err = fmt.Errorf("%w: %s", ErrProtocol, protocol)
		}
		return nil, fmt.Errorf("dial %s: %w", endpoint, err)
	}
	d.budget.Give(id)
	return conn, nil
}

// refusesProtocol says whether the other end refused a handshake because of its ALPN. crypto/tls has no type for that.
func refusesProtocol(err error) bool {
	var refusal *net.OpError
	return errors.As(err, &refusal) && refusal.Op == "remote error" && refusal.Err.Error() == "tls: no application protocol"
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
