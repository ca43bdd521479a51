// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// Options are the options of New. All fields but Workers, GuardLive, Share, Parent, Pen, Scopes, Quota and Metrics are required.
type Options struct {
	ClusterID string // of this cluster
	Namespace string // that of the agent
	Consent   consent.Policy
	Accept    consent.Accept // what of other clusters takes effect here, unless their Cluster objects say something else
	// Edge says whether a cluster is an edge of the group: its rules are in force nowhere else.
	Edge      func(clusterID string) bool
	Workers   int  // of the engine; 0 is engine.DefaultWorkers
	GuardLive bool // see engine.Options
	Client    *kube.Client
	Store     *store.Store
	Registry  *informers.Registry
	Directory *directory.Directory
	Replica   *replica.Replica
	// Own is this cluster's Cluster object, nil if there is none. Targets of rules match it, and templates read it.
	Own func() *v1alpha1.Cluster
	// Frozen reports whether a restore of the local API server waits for its confirmation. It must be true before the
	// informers have anything from after the restore.
	Frozen func() bool
	// Peer returns how a peer's API server is reached now.
	Peer   func(id string) Connection
	Events Events
	Now    func() time.Time // by the clock of the local API server, for timestamps of conditions
	// Share shares among clusters by who admitted them, which Parent says; see engine.Options.
	Share  func(total int, wants map[string]int) map[string]int
	Parent func(clusterID string) string
	// Scopes is the result of ReadScopes.
	Scopes      []engine.Scope
	Quota       quota.Limits // of copies that are written because of one cluster; zero means the default limits
	StatusQuota quota.Limits // of statuses of rules likewise
	Log         *slog.Logger
	Metrics     prometheus.Registerer // nil for none
}

// Connection is how a peer's API server is reached.
type Connection struct {
	Source   engine.Source // nil while the peer cannot or must not be read
	Client   *kube.Client  // of the same connection
	Message  string        // why there is no Source, for users
	CaughtUp bool          // the peer itself has sent all that it published since this agent started
}

// Events records Kubernetes events. It does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, object metav1.Object, eventType, reason, message string)
}

// Hooks are called for what other parts must know. They must not block.
type Hooks struct {
	Refused     func(e replica.Entry, err error) // a feature of a member is invalid
	PeerRemoved func(id string)                  // the engine has removed a peer
}

// Rules connects the engine. It is safe for concurrent use.
type Rules struct {
	Hooks Hooks // all are set before Run

	options     Options
	engine      *engine.Engine
	unsettled   unsettled
	peerUpdates *loop.Loop[string] // clusterIDs of peers to update in the engine
	statuses    *loop.Loop[string] // rules of other clusters whose report changed
	ownStatuses *loop.Loop[string] // of this one's, which wait for no other's
	reports     reports
	scopes      scopes
	budget      *budget.Budget[string] // of statuses
}

// New returns rules that do nothing before Run.
func New(o Options) (*Rules, error) {
	o.Accept = cmp.Or(o.Accept, consent.AcceptAll)
	if o.Share == nil {
		o.Share = memory.Equally
	}
	r := &Rules{options: o}
	r.peerUpdates = loop.New("peerUpdates", o.Log, r.updatePeer)
	r.statuses = loop.New("rule status", o.Log, r.writeStatus)
	r.ownStatuses = loop.New("status of own rules", o.Log, r.writeStatus)
	r.budget = budget.New(cmp.Or(o.StatusQuota, quota.DefaultLimits()), r.statuses.AddAfter)
	r.scopes.record = loop.NewTask("record of where copies are", o.Log, r.recordScopes) // normally before there are copies
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
		Quota:          o.Quota,
		Share:          o.Share,
		Parent:         o.Parent,
		Log:            o.Log,
		Metrics:        o.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare sync rules: %w", err)
	}
	return r, nil
}

// Run runs the engine until ctx ends. The engine decides nothing before Ready.
func (r *Rules) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.engine.Run(ctx) })
	group.Go(func() error { return r.peerUpdates.Run(ctx, 4) })
	group.Go(func() error { return r.statuses.Run(ctx, 2) })
	group.Go(func() error { return r.ownStatuses.Run(ctx, 2) })
	group.Go(func() error { return r.scopes.record.Run(ctx) })
	return group.Wait()
}

// Ready says that RuleChanged was called for every existing rule, and that they are in their intended state. From then
// on, a rule that the engine does not know does not exist. Do not call it while a restore waits for its confirmation.
// It may be called twice.
func (r *Rules) Ready() {
	r.AcceptChanged("") // rules may have come before the Cluster objects that say what of their clusters is accepted
	r.engine.Ready()
}

// ClusterChanged says that the result of Options.Own has changed.
func (r *Rules) ClusterChanged() { r.engine.ClusterChanged() }

// localSource lets the engine watch the local API server.
type localSource struct{ client *kube.Client }

// Watch implements engine.Source.
func (l *localSource) Watch(ctx context.Context, s engine.Scope, keep func(*unstructured.Unstructured) bool, sink engine.Sink) error {
	options := kube.WatchOptions{GVK: s.GVK, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector, Keep: keep}
	return l.client.Watch(ctx, options, sink)
}
