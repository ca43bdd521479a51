// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
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
	token   *token // nil when the credential is a certificate
	host    string
	refused atomic.Bool // the API server does not accept the credential any more
}

func (p *peerSource) Watch(ctx context.Context, scope engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	return p.client.Watch(ctx, watchOptions(scope, keep), &peerSink{Sink: sink, source: p})
}

// peerSink lets the peer's status hear how the watches fare; nothing else asks a peer that is connected.
type peerSink struct {
	engine.Sink
	source *peerSource
}

func (p *peerSink) Health(err error) {
	s, id := p.source.session, p.source.id
	switch {
	case err == nil:
		s.peers.report(id, accessReady, "")
	case errors.Is(err, kube.ErrUnauthorized):
		if p.source.refused.CompareAndSwap(false, true) {
			s.peers.changed(id)
		}
	case errors.Is(err, kube.ErrUnreachable):
		s.peers.report(id, accessUnreachable, err.Error())
	}
	p.Sink.Health(err)
}

// classify tells the engine, in its own words, what an API server's answer means.
func classify(err error) error {
	for is, class := range map[error]error{
		kube.ErrUnreachable:  engine.ErrUnreachable,
		kube.ErrUnauthorized: engine.ErrForbidden,
		kube.ErrForbidden:    engine.ErrForbidden,
		kube.ErrKindUnknown:  engine.ErrKindUnknown,
	} {
		if errors.Is(err, is) {
			return class
		}
	}
	return nil
}

// offer hands the engine a connection to a peer, or takes it away.
func (s *session) offer(id string, source *peerSource) {
	if s.peers.setSource(id, source) {
		s.reoffer(id)
	}
}

// reoffer tells the engine what is known of a peer now: the connection, and the features that it published.
// Features count as known only once the peer's own agent was met: what others hold may be older than what
// made the copies that are here.
func (s *session) reoffer(id string) {
	if id == s.clusterID {
		return
	}
	source, state, met := s.peers.source(id)
	peer := engine.Peer{ClusterID: id, Name: s.clusterName(id), FeaturesKnown: met && s.replica.Progress(id).Completed > 0, Why: state.message}
	if source != nil {
		peer.Source = source
	}
	for _, e := range s.replica.Entries(replica.KindFeature) {
		if e.Origin != id || e.Status != replica.Live {
			continue
		}
		feature, err := decodeFeature(e.Origin, e.Key.Name, e.Payload)
		if err != nil {
			_ = s.refused(id, e.Key, err)
			continue
		}
		peer.Features = append(peer.Features, feature)
	}
	s.engine.SetPeer(peer)
}

// ownEpochWatch is the replica as the mesh sees it. A merge may bring back entries of this cluster that this
// agent does not remember; then a higher epoch must be opened.
type ownEpochWatch struct {
	*replica.Replica
	session *session
}

func (w ownEpochWatch) Merge(msg []byte, introducer string) (fresh, pull bool, err error) {
	fresh, pull, err = w.Replica.Merge(msg, introducer)
	if w.OwnEpochSeen() > 0 {
		w.session.chores.add(choreEpoch)
	}
	return fresh, pull, err
}

// newEngine joins the engine to the local API server.
func (s *session) newEngine(metrics prometheus.Registerer) (*engine.Engine, error) {
	scopes := scopeFile{dir: s.options.DataDir, log: s.log}
	return engine.New(engine.Options{
		LocalClusterID: s.clusterID,
		Namespace:      s.options.Namespace,
		Local:          &localSource{s.client},
		Target:         s.client,
		Cluster:        s.ownClusterNow,
		Report:         s.reported,
		Classify:       classify,
		Workers:        s.options.Workers,
		Scopes:         scopes.load(),
		ScopesChanged:  scopes.save,
		Log:            s.log,
		Metrics:        metrics,
	})
}

// ownClusterNow is what rules' targets are matched against.
func (s *session) ownClusterNow() *v1alpha1.Cluster { return s.registry.ownCluster() }
