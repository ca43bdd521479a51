// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// localSource lets the engine watch the local API server.
type localSource struct{ client *kube.Client }

func (l *localSource) Watch(ctx context.Context, scope engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	return l.client.Watch(ctx, watchOptions(scope, keep), sink)
}

func watchOptions(s engine.Scope, keep func(*unstructured.Unstructured) bool) kube.WatchOptions {
	return kube.WatchOptions{GVK: s.GVK, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Keep: keep}
}

// peerSource is one connection to a peer's API server, which the engine watches through.
type peerSource struct {
	session *session
	id      string
	client  *kube.Client
	target  target
	token   *token // nil when the credential is a certificate

	// What its watches said since runPeer proved the connection last.
	refused  atomic.Bool // the credential is not accepted any more
	troubled atomic.Bool // that, or no answer
}

func (p *peerSource) Watch(ctx context.Context, scope engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	return p.client.Watch(ctx, watchOptions(scope, keep), &peerSink{Sink: sink, source: p})
}

// peerSink lets runPeer hear how the watches fare, which is all that tells it of a peer that is connected.
type peerSink struct {
	engine.Sink
	source *peerSource
}

func (p *peerSink) Health(err error) {
	unauthorized := errors.Is(err, kube.ErrUnauthorized)
	if unauthorized {
		p.source.refused.Store(true)
	}
	troubled := unauthorized || errors.Is(err, kube.ErrUnreachable)
	before := p.source.troubled.Load()
	if troubled {
		p.source.troubled.Store(true)
	}
	if troubled != before { // also when it answers again, so that this is proven now and not after a wait
		p.source.session.peers.changed(p.source.id)
	}
	if errors.Is(err, kube.ErrRestored) {
		p.source.session.chores.add(chorePositions) // at once: what told of it may not be there for the next agent
	}
	p.Sink.Health(err)
}

// classify tells the engine, in its own words, what an API server's answer means.
func classify(err error) error {
	switch {
	case errors.Is(err, kube.ErrRestored):
		return engine.ErrRestored
	case errors.Is(err, kube.ErrKindUnknown):
		return engine.ErrKindUnknown
	case errors.Is(err, kube.ErrUnauthorized), errors.Is(err, kube.ErrForbidden):
		return engine.ErrForbidden
	case errors.Is(err, kube.ErrUnreachable):
		return engine.ErrUnreachable
	}
	return nil
}

// offer hands the engine a connection to a peer, or takes it away.
func (s *session) offer(id string, source *peerSource) {
	changed := s.peers.set(id, func(p *peer) {
		if p.source = source; source == nil {
			p.expires = time.Time{}
		}
	})
	if changed {
		s.offers.add(id)
	}
}

// offerPeer tells the engine what is known of a peer now: the connection, and the features that it published.
func (s *session) offerPeer(_ context.Context, id string) error {
	switch {
	case id == s.clusterID:
	case s.forgotten(id):
		s.engine.RemovePeer(id)
		s.peers.forget(id)
	default:
		s.engine.SetPeer(s.enginePeer(id))
	}
	return nil
}

// forgotten says that a cluster is gone from the group, or was put here by hand and is gone: no member tells of it. Who
// takes it in again takes it as it is then.
func (s *session) forgotten(id string) bool {
	return s.gone(id) || len(s.registry.byID(id)) == 0 && !s.spoke(id)
}

// spoke says that anything that the cluster itself published is known.
func (s *session) spoke(id string) bool {
	_, ok := s.replica.Lookup(clusterKey(id), id)
	return ok || s.replica.Progress(id).Completed > 0
}

// hearPeer asks a member itself, once, for all that it published. Until then what others hold of it may be
// older than what made the copies that are here, and its features do not count as known.
func (s *session) hearPeer(ctx context.Context, id string) error {
	if s.peers.look(id).heard || s.mesh.Member(id).State != mesh.Alive {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hearTimeout)
	defer cancel()
	if err := s.mesh.Pull(ctx, id); err != nil {
		return fmt.Errorf("ask the member for all that it published: %w", err)
	}
	s.peers.set(id, func(p *peer) { p.heard = true })
	s.statuses.add(id)
	s.offers.add(id)
	return nil
}

// hearTimeout bounds how long one member may take to tell us what it published.
const hearTimeout = 20 * time.Second

func (s *session) enginePeer(id string) engine.Peer {
	known := s.peers.look(id)
	peer := engine.Peer{
		ClusterID: id, Name: s.clusterName(id), Why: known.state.message,
		FeaturesKnown: known.heard && s.replica.Progress(id).Completed > 0,
	}
	if known.source != nil {
		peer.Source = known.source
	}
	if clusters := s.registry.byID(id); len(clusters) > 0 {
		peer.Cluster = clusters[0]
	}
	for _, e := range s.replica.EntriesOf(id, replica.KindFeature) {
		if e.Status != replica.Live {
			continue
		}
		feature, err := decodeFeature(e.Origin, e.Key.Name, e.Payload)
		if err != nil {
			s.refuse(e, err)
			continue
		}
		peer.Features = append(peer.Features, feature)
	}
	return peer
}

// newEngine joins the engine to the local API server.
func (s *session) newEngine(scopes []engine.Scope, metrics prometheus.Registerer) (*engine.Engine, error) {
	return engine.New(engine.Options{
		LocalClusterID: s.clusterID,
		Namespace:      s.options.Namespace,
		Consent:        s.options.consent(),
		Local:          &localSource{s.client},
		Target:         s.client,
		Cluster:        s.ownClusterNow,
		Namespaced:     s.client.Namespaced,
		Report:         s.reported,
		Event:          s.ruleEvent,
		Review:         s.review,
		Classify:       classify,
		Workers:        s.options.Workers,
		GuardLive:      s.options.GuardLive,
		Scopes:         scopes,
		ScopesChanged:  s.scopesChanged,
		Log:            s.log,
		Metrics:        metrics,
	})
}

// review asks an API server, of a peer or with "" the local one, which rights the agent lacks there.
func (s *session) review(ctx context.Context, cluster string, gvk schema.GroupVersionKind, namespaces, verbs []string) (engine.Lack, error) {
	client := s.client
	if cluster != "" {
		source := s.peers.look(cluster).source
		if source == nil {
			return engine.Lack{}, engine.ErrUnreachable
		}
		client = source.client
	}
	resource, missing, in, err := client.MissingVerbs(ctx, gvk, namespaces, verbs)
	return engine.Lack{Resource: resource, Verbs: missing, Namespaces: in}, err
}

// ownClusterNow is what rules' targets are matched against, and what their templates read.
func (s *session) ownClusterNow() *v1alpha1.Cluster { return s.registry.ownCluster() }
