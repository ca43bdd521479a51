// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/mesh/trust"
)

// errOptions: what New was given cannot work.
var errOptions = errors.New("mesh options")

// State is what the mesh keeps equal between members. Its methods are called
// from many goroutines.
type State interface {
	// Digest says what is held. It opens with a hash of the contents, as a
	// protobuf field of 34 bytes: the same for two states that hold the same,
	// whatever the rest says. At most 2 MiB.
	Digest() []byte
	// Lacks says whether the digest's sender holds something that we do not.
	Lacks(digest []byte) (bool, error)
	// Delta emits, in an order in which they can be merged, the messages that
	// the digest's sender lacks. The mesh keeps emitted slices until they are
	// sent and does not change them.
	Delta(digest []byte, emit func(msg []byte) error) error
	// Merge takes one message. introducer is the member whose delta carried
	// it, or empty for news; news whose origin is unknown is handed over once
	// more with the member that sent it on, who introduces the origin if this
	// is its own entry. fresh: seen for the first time, so forward it;
	// pull: it shows that something else is missing. The state may keep msg.
	Merge(msg []byte, introducer string) (fresh, pull bool, err error)
}

// Options of New. Identity, Trust, State and Listen are required.
type Options struct {
	Identity Identity
	Trust    *trust.Table
	State    State
	// Network is TCP{} by default.
	Network Network
	// Listen is the address of the port, as in ":7946".
	Listen string
	// Listener is the port where it is open already; Listen then only names it. New takes it over, also when it fails.
	Listener net.Listener
	// Origin names whom a message that State.Merge took for fresh comes from. A
	// noisy origin is kept from delaying others. Nil: all messages are of one.
	Origin func(msg []byte) string
	// Endpoints lists where to dial a member (host:port, the first is tried
	// first). Call RetryNow when an answer would change. Must be quick.
	Endpoints func(clusterID string) []string
	// Protocols are served at the port beside the mesh's own, by the name that TLS chooses them by (ALPN), as in
	// "example-tunnel/1".
	Protocols map[string]Handler
	// Methods are calls that members may make of each other, by name, as in "Tell".
	Methods map[string]Method
	// RemovalNotice is the message by which a key was removed, nil when there is
	// none; its owner is told when it comes back.
	RemovalNotice func(key ed25519.PublicKey) []byte
	// MemberChanged is called for every change of a member's state, in order,
	// from one goroutine.
	MemberChanged func(Member)
	// Quiet is for a cluster that goes on at another agent when this one ends: nobody is told that it leaves.
	Quiet   bool
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// complete checks the options and fills in what is optional.
func (o *Options) complete() error {
	if err := o.Identity.check(); err != nil {
		return err
	}
	switch {
	case o.Trust == nil:
		return fmt.Errorf("%w: no Trust", errOptions)
	case o.State == nil:
		return fmt.Errorf("%w: no State", errOptions)
	case o.Listen == "":
		return fmt.Errorf("%w: no Listen address", errOptions)
	}
	if key, ok := o.Trust.Key(o.Identity.ClusterID); !ok || !key.Equal(o.Identity.PublicKey()) || o.Trust.IsPeer(o.Identity.ClusterID) {
		return fmt.Errorf("%w: Trust belongs to another identity", errOptions)
	}
	if err := checkProtocols(o.Protocols); err != nil {
		return err
	}
	o.Protocols = maps.Clone(o.Protocols)
	var err error
	if o.Methods, err = completeMethods(o.Methods); err != nil {
		return err
	}
	if o.Network == nil {
		o.Network = TCP{}
	}
	if o.Endpoints == nil {
		o.Endpoints = func(string) []string { return nil }
	}
	if o.Origin == nil {
		o.Origin = func([]byte) string { return "" }
	}
	if o.RemovalNotice == nil {
		o.RemovalNotice = func(ed25519.PublicKey) []byte { return nil }
	}
	if o.MemberChanged == nil {
		o.MemberChanged = func(Member) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
