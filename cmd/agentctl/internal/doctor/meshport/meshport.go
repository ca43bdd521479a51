// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package meshport looks at a mesh port from outside, as somebody whom no agent knows.
package meshport

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// timeout bounds the dialling of one address.
	timeout = 5 * time.Second
	// Protocol is a protocol of the mesh port.
	Protocol = "roster-packet/1"
)

// ErrOther is returned when a connection is taken, and what follows is not the mesh's.
var ErrOther = errors.New("something answers that is no mesh port")

// Key is the key whose possession the server at an address proves. For that no credential is needed: in
// TLS 1.3 the server goes first, and refuses us only afterwards.
func Key(ctx context.Context, address string) (ed25519.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the key itself is compared, there is no authority
		MinVersion:         tls.VersionTLS13, NextProtos: []string{Protocol},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOther, err)
	}
	key, ok := conn.ConnectionState().PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: its key is of another kind", ErrOther)
	}
	return key, nil
}
