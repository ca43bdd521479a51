// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// supervisor is what the one goroutine that opens and closes watches must look at.
type supervisor struct {
	wake  chan struct{} // has room for one: another wake before the first is taken adds nothing
	ready bool          // all rules that exist were set
	// What is to be looked at again: the views of some kinds, and the keys of kinds that are about rules; all views and keys of peers.
	views, kinds map[schema.GroupKind]bool
	rules, peers map[string]bool

	rest    time.Time // until when keys about rules are not
	resting bool      // it will be woken then
}

func newSupervisor() supervisor {
	return supervisor{wake: make(chan struct{}, 1), views: map[schema.GroupKind]bool{}, kinds: map[schema.GroupKind]bool{}, rules: map[string]bool{}, peers: map[string]bool{}}
}

// supervise makes the running watches be the wanted ones, and puts up the keys of what changed.
func (e *Engine) supervise(ctx context.Context, group *sync.WaitGroup) {
	cluster := e.o.Cluster()
	e.mu.Lock()
	if !e.supervisor.ready {
		e.mu.Unlock()
		return
	}
	e.setClusterLocked(cluster)
	e.resettlePlacesLocked()
	e.superviseSelectionsLocked()
	start := func(run func(context.Context)) (stop func()) {
		ctx, cancel := context.WithCancel(ctx)
		group.Go(func() {
			defer cancel()
			run(ctx)
		})
		return cancel
	}
	e.superviseScopingLocked(start)
	scopes, changed := e.superviseLocalsLocked(start)
	views := e.supervisor.views
	e.supervisor.views = map[schema.GroupKind]bool{}
	e.superviseViewsLocked(views, start)
	here := e.watchHere(start)
	e.conflicts.SuperviseLocked(e.rulesInPlaceLocked(), e.admissions(), here)
	e.namespaces.SuperviseLocked(func(s Scope, sink Sink) func() { return here(s, nil, sink) }, e.createsNamespacesLocked(), e.selectsNamespacesLocked())
	e.superviseReviewsLocked(views)
	e.judgeStaleLocked()
	e.mu.Unlock()
	if changed && e.o.ScopesChanged != nil {
		e.o.ScopesChanged(scopes)
	}
}

// staleRest times as long as it took to judge and put up what rules that changed are about, that is not done again: somebody may edit rules all the time.
const staleRest, staleRestCap = 20, 5 * time.Second

// judgeStaleLocked judges what changed, and then puts it up.
func (e *Engine) judgeStaleLocked() {
	s, kinds := &e.supervisor, e.supervisor.kinds
	if wait := time.Until(s.rest); wait > 0 {
		if kinds = nil; len(s.kinds) > 0 && !s.resting {
			s.resting = true
			time.AfterFunc(wait, e.superviseSoon)
		}
	}
	for id := range s.peers {
		e.judgePeerLocked(id)
	}
	began := time.Now()
	for gk := range kinds {
		e.judgeKindLocked(gk)
	}
	for gk := range kinds { // not before: the guard may have added one
		e.enqueueKindLocked(gk, inforce.About(s.rules))
		e.kindDirtyLocked(gk)
	}
	if len(kinds) > 0 {
		clear(s.kinds)
		clear(s.rules)
		s.resting, s.rest = false, time.Now().Add(min(staleRestCap, staleRest*time.Since(began)))
	}
	for id := range s.peers {
		e.enqueuePeerLocked(id)
	}
	if len(s.peers) > 0 {
		for gk := range e.rules.kinds {
			e.kindDirtyLocked(gk)
		}
	}
	clear(s.peers)
}

// starter starts a watch and returns what stops it.
type starter func(run func(context.Context)) (stop func())

// watchHere watches the local API server by watches that start starts.
func (e *Engine) watchHere(start starter) conflicts.Watch {
	return func(scope Scope, keep func(*unstructured.Unstructured) bool, sink Sink) (stop func()) {
		return start(func(ctx context.Context) { e.watch(ctx, e.o.Local, scope, keep, sink) })
	}
}

// watch keeps one watch going until ctx ends. A Source bridges outages itself; what it gives up on is retried
// here, slowly.
func (e *Engine) watch(ctx context.Context, source Source, scope Scope, keep func(*unstructured.Unstructured) bool, sink Sink) {
	for ctx.Err() == nil {
		err := source.Watch(ctx, scope, keep, sink)
		if ctx.Err() != nil {
			return
		}
		e.o.Log.Error("a watch ended by itself", "kind", scope.GVK.Kind, "namespace", scope.Namespace, "error", err)
		if err == nil {
			err = ErrUnreachable
		}
		sink.Health(err)
		wake.After(ctx, 5*time.Second, nil)
	}
}

// superviseLocalsLocked keeps the scopes open that rules may have copies in, and those that still have copies to
// decide on although no rule mentions them.
func (e *Engine) superviseLocalsLocked(start starter) (scopes []Scope, changed bool) {
	wanted := e.wantedLocalsLocked()
	for s := range wanted {
		if e.local.watches[s] == nil {
			e.local.watches[s] = &localWatch{scope: s}
			changed = true
		}
	}
	e.local.draining = false
	for s, w := range e.local.watches {
		if wanted[s] {
			continue
		}
		e.local.draining = true
		if e.drainedLocked(w, wanted) {
			if w.feed != nil {
				w.feed.stop()
				w.feed = nil
			}
			delete(e.local.watches, s)
			e.forgetScopeLocked(s)
			changed = true
		}
	}
	for _, w := range e.local.watches {
		if w.feed == nil {
			f := &copyFeed{e: e, w: w}
			w.feed = f
			f.stop = start(func(ctx context.Context) { e.watch(ctx, e.o.Local, f.w.scope, nil, f) })
		}
	}
	scopes = place.Sorted(maps.Keys(e.local.watches))
	return scopes, changed
}

func (e *Engine) wantedLocalsLocked() map[Scope]bool {
	wanted := map[Scope]bool{}
	for _, k := range e.rules.kinds {
		namespaces := map[string]bool{}
		for _, r := range k.writers {
			for _, s := range r.targets {
				if s.GVK == k.written.GroupVersionKind && !r.idle() {
					namespaces[s.Namespace] = true
				}
			}
		}
		if namespaces[""] {
			namespaces = map[string]bool{"": true}
		}
		for ns := range namespaces {
			wanted[place.Copies(k.written.GroupVersionKind, ns)] = true
		}
	}
	return wanted
}

// drainedLocked says that a scope which no rule wants can be closed: another one covers it, or nothing in it is left to decide on, and little takes room.
func (e *Engine) drainedLocked(w *localWatch, wanted map[Scope]bool) bool {
	gk := w.scope.GVK.GroupKind()
	for s := range wanted {
		if other := e.local.watches[s]; s.GVK.GroupKind() == gk && s.Covers(w.scope.Namespace) &&
			(s.Namespace == "" || s.Namespace == w.scope.Namespace) && other != nil && other.complete {
			return true
		}
	}
	if !w.complete {
		return !w.earlier // no copy was made before
	}
	left := int64(0) // of the room for copies, which is known while they are watched
	for at, c := range e.local.copies.All(gk) {
		if w.scope.Covers(at.Namespace) {
			if left += c.Weight(); e.undecidedLocked(c) || left > e.o.Copies/64 {
				return false
			}
		}
	}
	return true
}

// undecidedLocked says that something will be done about a copy, or about others because of it.
func (e *Engine) undecidedLocked(c *copies.Copy) bool {
	return len(c.Rules) > 0 && !c.Orphaned && (!c.Disabled || slices.ContainsFunc(c.Rules, func(name string) bool {
		r := e.rules.byName[name]
		return r != nil && !r.excluded && (r.guard.Suspect() || r.guard.Stopped())
	}))
}

// forgetScopeLocked drops the copies that no open scope keeps up to date.
func (e *Engine) forgetScopeLocked(s Scope) {
	gk := s.GVK.GroupKind()
	for at := range e.local.copies.All(gk) {
		if s.Covers(at.Namespace) && !e.localCompleteLocked(gk, at.Namespace) {
			k := place.At(gk, at)
			e.dropCopyLocked(k)
			e.forgetLocked(e.outcomes.results, k)
			e.forgetLocked(e.outcomes.observed, k)
		}
	}
}

// retryLocked puts a copy up, without waiting for its back-off, if it is not as it should be for a reason, "" for any.
func (e *Engine) retryLocked(k Key, reason string) {
	if r := e.outcomes.results[k]; reason == "" || r != nil && r.Reason == reason {
		e.outcomes.pacer.Succeeded(k)
		e.queue.EnqueueLocked(k)
	}
}

// retryFailedLocked puts up what failed when the local API server is back.
func (e *Engine) retryFailedLocked(gk schema.GroupKind) {
	for k, r := range e.outcomes.all() {
		if k.GroupKind == gk && r.State == tally.Failed {
			e.outcomes.pacer.Succeeded(k)
			e.queue.EnqueueLocked(k)
		}
	}
}
