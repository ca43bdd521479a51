// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// Options are all needed, but for Workers, GuardLive, Scopes and Metrics.
type Options struct {
	ClusterID string // of this cluster
	Namespace string // the agent's own
	Consent   syncrules.Consent
	Workers   int  // of the engine; 0 is engine.DefaultWorkers
	GuardLive bool // see engine.Options
	Client    *kube.Client
	Store     *store.Store
	Registry  *informers.Registry
	Directory *directory.Directory
	Replica   *replica.Replica
	// Own is this cluster's Cluster object, nil where there is none: what rules' targets are matched against, and what
	// their templates read.
	Own func() *v1alpha1.Cluster
	// Frozen says that a restore of the local API server waits for its confirmation. It is true before the registry has
	// anything that the restore has brought.
	Frozen func() bool
	// Peer is what is known of another cluster now.
	Peer   func(id string) Connection
	Events Events
	Now    func() time.Time // at the local API server, for the dates of conditions
	// Scopes are what ReadScopes returned.
	Scopes  []engine.Scope
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil for none
}

// Connection is how a peer's API server is reached.
type Connection struct {
	Source  engine.Source // nil while it cannot or must not be read
	Client  *kube.Client  // of the same connection
	Message string        // why there is no Source, for people
	Heard   bool          // the peer itself was asked for all that it published since this agent started
}

// Events records Kubernetes events; it does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, object metav1.Object, eventType, reason, message string)
}

// Hooks are told of what comes up. They must not block.
type Hooks struct {
	Refused func(e replica.Entry, err error) // a feature of a member cannot be used
	Forget  func(id string)                  // the engine was told that there is no such peer any more
}

// Rules is safe for use by any goroutine.
type Rules struct {
	Hooks Hooks // all are set before Run

	options   Options
	engine    *engine.Engine
	unsettled unsettled
	offers    *loop.Loop[string] // clusterIDs of which the engine must be told
	statuses  *loop.Loop[string] // rules whose report changed
	reports   reports
	scopes    scopes
}

// New starts nothing.
func New(o Options) (*Rules, error) {
	r := &Rules{options: o}
	r.offers = loop.New("offers", o.Log, r.offerPeer)
	r.statuses = loop.New("rule status", o.Log, r.writeStatus)
	r.scopes.record = loop.NewTask("record of where copies are", o.Log, r.recordScopes) // before there are copies, as a rule
	var err error
	r.engine, err = engine.New(engine.Options{
		LocalClusterID: o.ClusterID,
		Namespace:      o.Namespace,
		Consent:        o.Consent,
		Local:          &localSource{o.Client},
		Target:         o.Client,
		Cluster:        o.Own,
		Namespaced:     o.Client.Namespaced,
		Report:         r.reported,
		Event:          r.event,
		Review:         r.review,
		Classify:       classify,
		Workers:        o.Workers,
		GuardLive:      o.GuardLive,
		Scopes:         o.Scopes,
		ScopesChanged:  r.scopesChanged,
		Log:            o.Log,
		Metrics:        o.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare sync rules: %w", err)
	}
	return r, nil
}

// Run blocks until ctx ends. The engine decides nothing before Ready.
func (r *Rules) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.engine.Run(ctx) })
	group.Go(func() error { return r.offers.Run(ctx, 4) })
	group.Go(func() error { return r.statuses.Run(ctx, 2) })
	group.Go(func() error { return r.scopes.record.Run(ctx) })
	return group.Wait()
}

// Ready says that RuleChanged was called for all rules that there are, and that they are what people want: from now on one
// that is not known does not exist. While a restore waits for its confirmation it must not be called. To call it twice
// changes nothing.
func (r *Rules) Ready() { r.engine.Ready() }

// ClusterChanged says that Options.Own returns something else.
func (r *Rules) ClusterChanged() { r.engine.ClusterChanged() }

// localSource lets the engine watch the local API server.
type localSource struct{ client *kube.Client }

// Watch implements engine.Source.
func (l *localSource) Watch(ctx context.Context, s engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	options := kube.WatchOptions{GVK: s.GVK, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Keep: keep}
	return l.client.Watch(ctx, options, sink)
}
