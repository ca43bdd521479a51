// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/fingerprint"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/metrics"
	"github.com/roster-mesh/roster/syncrules/engine/namespaces"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/queue"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
	"github.com/roster-mesh/roster/syncrules/engine/visible"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// DefaultWorkers is how many copies are written at the same time unless Options say otherwise.
const DefaultWorkers = 16

// Options are what an Engine needs. LocalClusterID, Local, Target and Cluster are required.
type Options struct {
	LocalClusterID string
	// Namespace is the agent's own; copies into its -private and -readers namespaces are refused.
	Namespace string
	// Consent is what this cluster lets rules write of what gives power; its Namespace is the one above.
	Consent consent.Policy
	// Local is the local API server, watched for copies, missing namespaces and objects in the way.
	Local Source
	// Target is the local API server, written to.
	Target Target
	// Cluster returns the local Cluster object, for targets and templates; nil when it is not known now. It is
	// not changed later: another state is another object. ClusterChanged says that the answer may have changed.
	Cluster func() *v1alpha1.Cluster
	// Namespaced says whether objects of a kind are in namespaces here. It may block: it is asked once for a kind,
	// and again after an error. Without it, copies are in a namespace if their source is.
	Namespaced func(context.Context, schema.GroupVersionKind) (bool, error)
	// Event is told what happened to copies of a rule, summed up, from the goroutine of Report. The rule may be
	// gone already.
	Event func(rule string, event Event)
	// Review asks an API server, of a peer or with "" the local one, which of the verbs on a kind the agent
	// lacks, in the namespaces (none: in all). It explains what was refused, and what would be.
	Review func(ctx context.Context, cluster string, gvk schema.GroupVersionKind, namespaces, verbs []string) (Lack, error)
	// Report is told what became of a rule, from one goroutine, at most every two seconds a rule and
	// only when something changed. It may block; then reports wait, copies do not.
	Report func(rule string, r RuleReport)
	// Classify names the kind of an error of Source or Target as one of the errors of this package, or
	// returns nil. API status errors are understood without it.
	Classify func(error) error
	// GuardLive puts deletions that are seen live under the deletion guard, too.
	GuardLive bool
	// Workers is how many copies are written at the same time; 0 means DefaultWorkers.
	Workers int
	// Quota bounds what is written because of one cluster; zero means the default limits.
	Quota quota.Limits
	// Share returns what each cluster gets at most of total if it wants everything, and the others what wants says: of rules in
	// force, watches, and memory, once all together want too much. Without it all get the same. It is called with locks of the engine
	// held: it must not call the engine, nor wait for anybody.
	Share func(total int, wants map[string]int) map[string]int
	// Parent is who admitted a cluster, "" where nobody knows; rules and copies have turns by that, and copies room. Without it all get the same. It is
	// called like Share.
	Parent func(clusterID string) string
	// Bounds are how much is held of other clusters.
	bounds.Bounds
	// Scopes are the local scopes that an earlier run told ScopesChanged last. The copies in them are looked
	// at once more even if no rule mentions them now: their rule may be gone.
	Scopes        []Scope
	ScopesChanged func([]Scope)
	Log           *slog.Logger
	Metrics       prometheus.Registerer
}

// Engine keeps the copies of one cluster as the rules say. All methods but Run are cheap, do not block, and
// may be called from any goroutine, also before Run.
type Engine struct {
	o       Options
	metrics *metrics.Metrics
	hash    fingerprint.Hasher
	rights  *rights.Reviewer

	// mu guards everything below but the channels in it. No call but Options.Share and Parent leaves the package while it is held.
	mu         mutex
	supervisor supervisor
	reporter   reporter
	queue      queue.Keys
	clusters   clusters
	scoping    scoping
	rules      ruleSet
	views      viewSet
	local      locals
	outcomes   outcomes
	conflicts  *conflicts.Conflicts
	namespaces *namespaces.Namespaces
}

// mutex is a sync.Mutex whose use a test can count.
type mutex struct {
	sync.Mutex
	taken *atomic.Int64 // nil outside that test
}

func (m *mutex) Lock() {
	m.Mutex.Lock()
	if m.taken != nil {
		m.taken.Add(1)
	}
}

// New checks the options and starts nothing.
func New(o Options) (*Engine, error) {
	switch {
	case o.LocalClusterID == "":
		return nil, errors.New("engine: no LocalClusterID")
	case o.Local == nil, o.Target == nil, o.Cluster == nil:
		return nil, errors.New("engine: Local, Target and Cluster are needed")
	case o.Workers < 0, o.Negative():
		return nil, errors.New("engine: Workers or a limit is negative")
	}
	o.SetDefaults()
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Report == nil {
		o.Report = func(string, RuleReport) {}
	}
	if o.Event == nil {
		o.Event = func(string, Event) {}
	}
	if o.Share == nil {
		o.Share = memory.Equally
	}
	o.Consent.Namespace = o.Namespace
	e := &Engine{
		o: o, hash: fingerprint.New(), supervisor: newSupervisor(), reporter: newReporter(),
		clusters: newClusters(), scoping: scoping{asking: map[schema.GroupVersionKind]chan struct{}{}}, rules: newRuleSet(),
		views: newViewSet(&o), outcomes: newOutcomes(&o),
	}
	e.queue = queue.New(e.linesLocked)
	stock := quota.NewStock(o.Copies, o.LocalClusterID, o.Parent, e.allAuthorsLocked, func() []string { return e.clusters.ids })
	e.local = newLocals(o.Scopes, stock, e.authorsLocked)
	e.rights = newReviewer(e)
	e.conflicts = conflicts.New(conflicts.Engine{Lock: &e.mu, SuperviseSoon: e.superviseSoon, EnqueueLocked: e.queue.EnqueueLocked}, e.hash)
	e.namespaces = namespaces.New(namespaces.Engine{
		Lock: &e.mu, SuperviseSoon: e.superviseSoon, Log: o.Log, RetryLocked: e.retryLocked,
		ChangedLocked: e.namespaceChangedLocked, StaleLocked: e.namespacesStaleLocked, GuardLive: o.GuardLive,
	})
	var err error
	e.metrics, err = metrics.New(o.Metrics, e.ruleSums)
	return e, err
}

// Run does the work until ctx ends. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	e.queue.Open()
	var group sync.WaitGroup
	for range e.o.Workers {
		group.Go(func() { e.work(ctx) })
	}
	group.Go(func() { e.report(ctx) })
	if e.o.Review != nil {
		group.Go(func() { e.rights.Run(ctx) })
	}
	for ctx.Err() == nil {
		began := time.Now()
		e.supervise(ctx, &group)
		wake.After(ctx, superviseRest*time.Since(began), nil) // what changes meanwhile is looked at together
		select {
		case <-ctx.Done():
		case <-e.supervisor.wake:
		}
	}
	e.queue.ShutDown()
	group.Wait()
	return nil
}

// Ready says that all rules that exist have been set: from now on a rule that is not known does not exist.
// Nothing is decided before.
func (e *Engine) Ready() {
	e.mu.Lock()
	if !e.supervisor.ready {
		e.supervisor.ready = true
		e.indexKindsLocked()
	}
	e.mu.Unlock()
	e.superviseSoon()
}

// SetRule states a rule as it is now. What did not change costs nothing. This cluster does not let a refused rule be in
// force: copies that no other rule offers are frozen.
func (e *Engine) SetRule(r *v1alpha1.ResourceSyncRule, refused error) {
	fresh := newRule(r, e.o.Consent, refused)
	e.mu.Lock()
	old := e.rules.byName[r.Name]
	if old != nil && old.same(fresh) {
		e.mu.Unlock()
		return
	}
	e.rules.serial++
	fresh.serial = e.rules.serial
	fresh.fit(e.scoping.known)
	if old != nil {
		fresh.inherit(old, &e.rules.edits)
		e.views.selections.Edited(r.Name)
		e.staleRuleLocked(old)
	}
	e.rules.byName[r.Name] = fresh
	e.namespaces.SelectLocked(r.Name, fresh.fanOut())
	e.respreadLocked(r.Name)
	if old == nil {
		for k, res := range e.outcomes.all() { // those of a rule of that name which is deleted but not yet forgotten
			if slices.Contains(res.Rules, r.Name) {
				fresh.tally.Add(k, r.Name, res, 1)
			}
		}
	}
	e.staleRuleLocked(fresh)
	e.indexKindsLocked()
	e.mu.Unlock()
	e.superviseSoon()
}

// DeleteRule states that a rule does not exist.
func (e *Engine) DeleteRule(name string) {
	e.mu.Lock()
	old := e.rules.byName[name]
	if old != nil {
		delete(e.rules.byName, name)
		e.namespaces.SelectLocked(name, nil)
		e.views.selections.Edited(name)
		e.metrics.ForgetRule(name)
		e.staleRuleLocked(old)
		e.indexKindsLocked()
	}
	e.mu.Unlock()
	if old != nil {
		e.superviseSoon()
	}
}

// SetPeer states another cluster of the group as it is now. What did not change costs nothing.
func (e *Engine) SetPeer(p Peer) {
	if p.ClusterID == "" || p.ClusterID == e.o.LocalClusterID {
		return
	}
	e.mu.Lock()
	old := e.clusters.peers[p.ClusterID]
	changed := old == nil || !old.same(p)
	now := &peer{Peer: p}
	if old != nil {
		now.seen = old.seen
		if p.Left || p.Name != old.Name {
			e.metrics.ForgetPeer(old.name())
		}
	}
	if e.takeSnapshotLocked(&now.seen, visible.Of(p.Cluster)) {
		e.clusters.peers[p.ClusterID] = now
		changed = changed || e.anyReadsLocked()
	}
	if changed {
		e.clusters.peers[p.ClusterID] = now
		e.supervisor.peers[p.ClusterID] = true
	}
	if old == nil {
		i, _ := slices.BinarySearch(e.clusters.ids, p.ClusterID)
		e.clusters.ids = slices.Insert(e.clusters.ids, i, p.ClusterID)
	}
	e.mu.Unlock()
	if changed {
		e.superviseSoon()
	}
}

// RemovePeer states that a cluster is no longer in the group: its copies become orphans. It is the same as
// SetPeer with Left.
func (e *Engine) RemovePeer(clusterID string) {
	e.SetPeer(Peer{ClusterID: clusterID, Left: true})
}

// ClusterChanged says that Options.Cluster may answer differently now. Unless the labels differ, or templates see
// the difference, that is of no consequence.
func (e *Engine) ClusterChanged() { e.superviseSoon() }

// errors reads errors as Options say.
func (e *Engine) errors() problem.Reader { return problem.Reader{Classify: e.o.Classify} }

func (e *Engine) superviseSoon() { wake.Up(e.supervisor.wake) }

const superviseRest = 4 // times as long as that took, watches are not looked at again: meanwhile nothing is decided
