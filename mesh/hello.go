// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
)

// maxHello bounds what is kept of a connection before it is known what it speaks.
const maxHello = 64 << 10

// errHelloRead ends a handshake of which only the opening is read.
var errHelloRead = errors.New("hello read")

// readHello reads how a TLS handshake opens, and returns what protocols the peer offers and the connection from its start.
// Nothing is answered.
func readHello(ctx context.Context, raw net.Conn) (protocols []string, whole net.Conn, err error) {
	var read bytes.Buffer
	listening := &readOnlyConn{Conn: raw, from: io.TeeReader(io.LimitReader(raw, maxHello), &read)}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			protocols = slices.Clone(hello.SupportedProtos)
			return nil, errHelloRead
		},
	}
	if err := tls.Server(listening, config).HandshakeContext(ctx); !errors.Is(err, errHelloRead) {
		return nil, nil, err
	}
	return protocols, &replayedConn{Conn: raw, from: io.MultiReader(&read, raw)}, nil
}

// readOnlyConn writes nothing, and is not closed by who reads.
type readOnlyConn struct {
	net.Conn
	from io.Reader
}

func (c *readOnlyConn) Read(b []byte) (int, error)  { return c.from.Read(b) }
func (c *readOnlyConn) Write(b []byte) (int, error) { return len(b), nil }
func (c *readOnlyConn) Close() error                { return nil }

// replayedConn reads first what was read before.
type replayedConn struct {
	net.Conn
	from io.Reader
}

func (c *replayedConn) Read(b []byte) (int, error) { return c.from.Read(b) }
