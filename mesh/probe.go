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
	"time"
)

// ErrNoMesh is returned when something else than an agent answers at an address.
var ErrNoMesh = errors.New("no mesh port")

// probeTimeout bounds a whole probe.
const probeTimeout = 10 * time.Second

// Probe tells whether an agent answers at address, and returns its public key. It shows no key of its own, so it
// gets no further than the handshake and learns nothing that is not shown to everybody; that it is that
// cluster's key is for the caller to check.
func Probe(ctx context.Context, address string) (ed25519.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocolRPC},
		InsecureSkipVerify: true, //nolint:gosec // the certificate is self-signed; its key is what is asked for
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if _, ok := errors.AsType[*net.OpError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoMesh, address, err)
	}
	defer conn.Close()
	key, err := peerKey(conn.(*tls.Conn).ConnectionState()) // which is what a tls.Dialer makes
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoMesh, address, err)
	}
	return key, nil
}
