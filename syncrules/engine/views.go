// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// superviseViews opens one view per peer and scope that rules need, and closes the others, for the kinds and
// peers that changed. A view whose rules changed is delivered anew, since what did not match before was not
// kept. mu is held.
func (e *Engine) superviseViews(start starter) {
	var opened []*view
	for gk := range e.stale {
		for _, p := range e.peers {
			opened = append(opened, e.superviseSource(gk, p, start)...)
		}
	}
	for gk := range e.kinds {
		if e.stale[gk] {
			continue
		}
		for id := range e.stalePeers {
			opened = append(opened, e.superviseSource(gk, e.peers[id], start)...)
		}
	}
	e.expect(opened)
}

// superviseSource does it for one kind at one peer, and returns the views that were opened.
func (e *Engine) superviseSource(gk schema.GroupKind, p *peer, start starter) (opened []*view) {
	wanted := e.wantedViews(gk, p)
	views := e.views[p.ClusterID]
	for s, v := range views {
		if s.GVK.GroupKind() == gk && wanted[s] == nil {
			e.dropView(v)
		}
	}
	if views == nil && len(wanted) > 0 {
		views = map[Scope]*view{}
		e.views[p.ClusterID] = views
	}
	for s, rules := range wanted {
		v := views[s]
		if v == nil {
			v = &view{
				viewKey: viewKey{p.ClusterID, s}, entries: map[types.NamespacedName]*entry{}, gone: map[passage]struct{}{},
				since: time.Now(), burden: e.burdenOf(p.ClusterID),
			}
			views[s] = v
		}
		if v.feed != nil && v.feed.serves(p, rules) {
			continue
		}
		e.closeView(v)
		if p.Source == nil {
			continue // what is known stays known, and is not live
		}
		f := newFeed(e, v, p, rules)
		v.feed, v.since, v.spoken = f, time.Now(), false
		f.stop = start(func(ctx context.Context) { e.watchView(ctx, f) })
		opened = append(opened, v)
	}
	if len(views) == 0 {
		delete(e.views, p.ClusterID)
	}
	return opened
}

func (e *Engine) burdenOf(peer string) *burden {
	if e.burdens[peer] == nil {
		e.burdens[peer] = &burden{}
	}
	return e.burdens[peer]
}

// closeView ends the watch of a view; what it holds stays. dropView forgets it altogether.
func (e *Engine) closeView(v *view) {
	if v.feed != nil {
		v.feed.stop()
		v.feed = nil
	}
	e.doubt(v)
	v.live, v.err = false, nil
	e.wakeWaiting(v.peer)
}

func (e *Engine) dropView(v *view) {
	e.closeView(v)
	e.enqueueView(v)
	for at := range v.entries {
		e.dropEntry(v, at)
	}
	delete(e.views[v.peer], v.scope)
}

// wantedViews are the scopes of a kind that rules need of a peer.
func (e *Engine) wantedViews(gk schema.GroupKind, p *peer) map[Scope][]*rule {
	k := e.kinds[gk]
	if p.Left || k == nil {
		return nil
	}
	wanted := make(map[Scope][]*rule, len(k.readers))
	for _, r := range k.readers {
		if _, watch, _ := e.relate(r, p); watch {
			for _, s := range r.scopes {
				wanted[s] = append(wanted[s], r)
			}
		}
	}
	return wanted
}

// enqueueView puts up everything that is in a view. mu is held.
func (e *Engine) enqueueView(v *view) {
	for at, ent := range v.entries {
		for to := range ent.targets(v.key(at)) {
			e.enqueue(to)
		}
	}
}

// enqueueKind puts up every key of a kind that anything is known of. mu is held.
func (e *Engine) enqueueKind(gk schema.GroupKind) {
	for at := range e.holders[gk] {
		e.enqueue(place.At(gk, at))
	}
	for at := range e.copies.All(gk) {
		e.enqueue(place.At(gk, at))
	}
	for k := range e.results {
		if k.GroupKind == gk {
			e.enqueue(k)
		}
	}
}

// enqueuePeer puts up every key that is about a peer. mu is held.
func (e *Engine) enqueuePeer(id string) {
	for _, v := range e.views[id] {
		e.enqueueView(v)
	}
	for k := range e.copies.OwnedBy(id) {
		e.enqueue(k)
	}
}
