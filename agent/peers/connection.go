// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// connection is a connection to a peer's API server. It implements engine.Source.
type connection struct {
	peers  *Peers
	id     string
	client *kube.Client
	target apiconn.Target
	token  *apiconn.Token // nil when the credential is a certificate

	// What its watches have reported since the link last verified the connection.
	unauthorized atomic.Bool // the API server refused the credential
	failing      atomic.Bool // unauthorized, or no answer
}

// Watch implements engine.Source.
func (c *connection) Watch(ctx context.Context, s engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	options := kube.WatchOptions{GVK: s.GVK, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Keep: keep}
	return c.client.Watch(ctx, options, &healthSink{Sink: sink, connection: c})
}

// healthSink reports the health of watches to the link. For a connected peer the link has no other source.
type healthSink struct {
	engine.Sink
	connection *connection
}

// Health implements engine.Sink.
func (s *healthSink) Health(err error) {
	c := s.connection
	unauthorized := errors.Is(err, kube.ErrUnauthorized)
	if unauthorized {
		c.unauthorized.Store(true)
	}
	failing := unauthorized || errors.Is(err, kube.ErrUnreachable)
	before := c.failing.Load()
	if failing {
		c.failing.Store(true)
	}
	if failing != before { // also when it answers again, so that the link verifies that at once
		c.peers.Changed(c.id)
	}
	if errors.Is(err, kube.ErrRestored) {
		c.peers.record.Trigger() // at once: the next agent may not see the sign of the restore
	}
	s.Sink.Health(shown(err))
}

// MemberChanged wakes the link to a cluster when its agent answers again, as it may issue a credential then, and when the
// agent has failed: the link verifies then whether the API server still answers. No watch may be open there that would
// notice.
func (p *Peers) MemberChanged(id string, now mesh.MemberState) {
	switch now {
	case mesh.Failed:
		p.mu.Lock()
		if c := p.trackedLocked(id).connection; c != nil {
			c.failing.Store(true) // for all that is known
		}
		p.mu.Unlock()
		p.Changed(id)
	case mesh.Alive:
		p.Changed(id)
	case mesh.Unknown, mesh.Suspect, mesh.Left:
	}
}
