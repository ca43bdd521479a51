// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/roster-mesh/roster/mesh/trust"
)

// The protocols of the port, chosen by ALPN.
const (
	protocolPacket = "roster-packet/1" // frames of frame.go, one connection per peer
	protocolStream = "roster-stream/1" // one memberlist stream
	protocolRPC    = "h2"              // gRPC
)

var (
	// ErrUnpinned is returned when a peer's key is pinned for no cluster.
	ErrUnpinned = errors.New("the peer's key is not pinned")
	// ErrWrongCluster is returned when an endpoint is answered by a key other
	// than the one that is pinned for the cluster that was dialled.
	ErrWrongCluster = errors.New("endpoint leads to another cluster")
	// ErrProtocol is returned by Mesh.Dial when the member does not speak the protocol, as one that runs an older version
	// does not.
	ErrProtocol = errors.New("the member does not speak this protocol")
	// errNoKey: TLS let a peer through that showed no Ed25519 key.
	errNoKey = errors.New("the peer shows no Ed25519 key")
)

// authenticator turns the pin table into TLS configurations: TLS 1.3 only, both sides
// authenticated, no X.509 path or dates, and no session tickets, since a
// resumed session would outlive the removal of its pin.
type authenticator struct {
	certificate tls.Certificate
	trust       *trust.Table
	protocols   map[string]Handler
}

// server accepts every pinned key but our own, lets removed ones in as far
// as the removal notice, and others as far as a protocol takes them.
func (a *authenticator) server() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{a.certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		MinVersion:             tls.VersionTLS13,
		NextProtos:             slices.AppendSeq([]string{protocolPacket, protocolStream, protocolRPC}, maps.Keys(a.protocols)),
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := a.caller(state)
			if errors.Is(err, trust.ErrRemoved) {
				return nil // it is told so, and no more
			}
			return err
		},
	}
}

// client accepts only the key that is pinned for want.
func (a *authenticator) client(want, protocol string) *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{a.certificate},
		InsecureSkipVerify:     true, // replaced by VerifyConnection: a pin, not a path
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return a.verify(state, want, protocol)
		},
	}
}

func (a *authenticator) verify(state tls.ConnectionState, want, protocol string) error {
	key, err := peerKey(state)
	if err != nil {
		return err
	}
	pinned, ok := a.trust.Key(want)
	if !ok {
		return ErrUnpinned
	}
	if !pinned.Equal(key) {
		if other, ok := a.trust.ClusterID(key); ok {
			return fmt.Errorf("%w: to %s", ErrWrongCluster, other)
		}
		return fmt.Errorf("%w: its key is not pinned here", ErrWrongCluster)
	}
	if state.NegotiatedProtocol != protocol {
		return fmt.Errorf("%w: %s", ErrProtocol, protocol)
	}
	return nil
}

// caller is who is at the other end of an accepted connection. The key is known with trust.ErrRemoved, too.
func (a *authenticator) caller(state tls.ConnectionState) (Caller, error) {
	key, err := peerKey(state)
	if err != nil {
		return Caller{}, err
	}
	id, ok := a.trust.ClusterID(key)
	switch {
	case ok && a.trust.IsPeer(id):
		return Caller{ClusterID: id, Key: key}, nil
	case !ok && a.protocols[state.NegotiatedProtocol].Unpinned:
		return Caller{Key: key, Removed: a.trust.Removed(key)}, nil
	case !ok && a.trust.Removed(key):
		return Caller{Key: key}, trust.ErrRemoved
	}
	return Caller{}, ErrUnpinned
}

// peerKey is the key whose possession the handshake proved.
func peerKey(state tls.ConnectionState) (ed25519.PublicKey, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errNoKey
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, errNoKey
	}
	return key, nil
}
