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
	"github.com/roster-mesh/roster/syncrules/engine"
)

// connection is one connection to a peer's API server: an engine.Source.
type connection struct {
	peers  *Peers
	id     string
	client *kube.Client
	target apiconn.Target
	token  *apiconn.Token // nil when the credential is a certificate

	// What its watches told since the link proved the connection last.
	refused  atomic.Bool // the credential is not accepted any more
	troubled atomic.Bool // that, or no answer
}

// Watch implements engine.Source.
func (c *connection) Watch(ctx context.Context, s engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	options := kube.WatchOptions{GVK: s.GVK, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Keep: keep}
	return c.client.Watch(ctx, options, &healthSink{Sink: sink, connection: c})
}

// healthSink lets the link hear how the watches fare, which is all that tells it of a peer that is connected.
type healthSink struct {
	engine.Sink
	connection *connection
}

// Health implements engine.Sink.
func (s *healthSink) Health(err error) {
	c := s.connection
	unauthorized := errors.Is(err, kube.ErrUnauthorized)
	if unauthorized {
		c.refused.Store(true)
	}
	troubled := unauthorized || errors.Is(err, kube.ErrUnreachable)
	before := c.troubled.Load()
	if troubled {
		c.troubled.Store(true)
	}
	if troubled != before { // also when it answers again, so that this is proven now and not after a wait
		c.peers.Changed(c.id)
	}
	if errors.Is(err, kube.ErrRestored) {
		c.peers.record.Again() // at once: what told of it may not be there for the next agent
	}
	s.Sink.Health(err)
}
