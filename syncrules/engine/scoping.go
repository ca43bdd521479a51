// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// scoping is what is known of kinds, and what is being asked.
type scoping struct {
	known place.Kinds
	// namespaced is known as a function, nil while nothing is known.
	namespaced func(schema.GroupVersionKind) (bool, error)
	asking     map[schema.GroupVersionKind]chan struct{} // to ask again at once
}

// fittedLocked says that what a rule that moves needs to know of its kinds is known.
func (e *Engine) fittedLocked(r *rule) bool {
	return e.o.Namespaced == nil || !slices.ContainsFunc(r.targets, func(s Scope) bool {
		_, known := e.scoping.known[s.GVK]
		return !known
	})
}

// superviseScopingLocked finds out what rules need to know of their kinds.
func (e *Engine) superviseScopingLocked(start starter) {
	if e.o.Namespaced == nil {
		return
	}
	for _, r := range e.rules.byName {
		for _, gvk := range r.learns {
			if _, known := e.scoping.known[gvk]; known || e.scoping.asking[gvk] != nil {
				continue
			}
			again := make(chan struct{}, 1)
			e.scoping.asking[gvk] = again
			start(func(ctx context.Context) { e.askScoping(ctx, gvk, again) })
		}
	}
}

// Back-off of asking for a kind that is not served; it is asked for at once when its watch comes to life.
const (
	scopingRetry    = time.Second
	scopingRetryCap = 5 * time.Minute
)

// askScoping asks for one kind until there is an answer or no rule needs one.
func (e *Engine) askScoping(ctx context.Context, gvk schema.GroupVersionKind, again <-chan struct{}) {
	for wait := scopingRetry; ctx.Err() == nil; wait = min(2*wait, scopingRetryCap) {
		namespaced, err := e.o.Namespaced(ctx, gvk)
		if e.answered(gvk, namespaced, err) {
			return
		}
		wake.After(ctx, wait, again)
	}
}

// answered takes in an answer, and says that none is needed any more.
func (e *Engine) answered(gvk schema.GroupVersionKind, namespaced bool, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && e.rules.any(func(r *rule) bool { return slices.Contains(r.learns, gvk) }) {
		return false
	}
	delete(e.scoping.asking, gvk)
	if err == nil {
		next := maps.Clone(e.scoping.known)
		if next == nil {
			next = place.Kinds{}
		}
		next[gvk] = namespaced
		e.refitLocked(next, gvk, !namespaced)
	}
	return true
}

// unlearnLocked makes a kind that was not served for a time be asked for again: it may be another one now.
func (e *Engine) unlearnLocked(gvk schema.GroupVersionKind) {
	if again := e.scoping.asking[gvk]; again != nil {
		wake.Up(again)
		return
	}
	if namespaced, known := e.scoping.known[gvk]; known {
		next := maps.Clone(e.scoping.known)
		delete(next, gvk)
		e.refitLocked(next, gvk, !namespaced)
	}
}

// refitLocked takes in what is known of kinds, of which one is new; it matters to all rules about that kind, or to those
// alone that may move copies.
func (e *Engine) refitLocked(known place.Kinds, gvk schema.GroupVersionKind, all bool) {
	e.scoping.known, e.scoping.namespaced = known, known.Namespaced
	for _, r := range e.rules.byName {
		if slices.Contains(r.learns, gvk) && (all || r.moves) {
			e.staleRuleLocked(r)
			r.fit(known)
			e.staleRuleLocked(r)
		}
	}
	e.indexKindsLocked()
	e.superviseSoon()
}

// inputOfLocked is what copies of a peer's objects depend on beside these.
func (e *Engine) inputOfLocked(p *peer) syncrules.Input {
	return syncrules.Input{Owner: p.ClusterID, Cluster: p.seen.cluster, LocalCluster: e.clusters.snapshot.cluster, Namespaced: e.scoping.namespaced}
}
