// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// viewSet is all views, with the indexes of their entries.
type viewSet struct {
	byPeer      map[string]map[Scope]*view
	memory      *memory.Memory
	selections  *selections.Selections
	due         map[selections.Of]int64 // what is to be counted of them
	ending      []selections.Of         // that are to be let go
	retrying    bool                    // those that have ended will be looked at
	resting     map[kindAt]struct{}     // what is looked at once more when the rest of some view is over
	watches     inforce.Watches
	seed        maphash.Seed                // of what tells rules from others
	rest, again time.Time                   // until when it is not chosen anew which of them are opened, and from when on it is, also without a change
	waiting     map[string]map[Key]struct{} // until a view of the peer has answered
	// holders are the entries of views by the place of their copies, awaited the views that may be about to
	// have one; both in the order of their peers.
	holders map[schema.GroupKind]map[types.NamespacedName][]holding
	awaited map[schema.GroupKind][]*view
}

func newViewSet(o *Options) viewSet {
	return viewSet{
		memory: memory.New(o.All, o.Share), selections: selections.New(o.Places, o.Share), seed: maphash.MakeSeed(), due: map[selections.Of]int64{}, resting: map[kindAt]struct{}{},
		byPeer: map[string]map[Scope]*view{}, waiting: map[string]map[Key]struct{}{},
		holders: map[schema.GroupKind]map[types.NamespacedName][]holding{}, awaited: map[schema.GroupKind][]*view{},
	}
}

// superviseViewsLocked opens one view per peer and scope that rules need, and closes the others, for the kinds and
// peers that changed. A view whose rules changed is delivered anew, since what did not match before was not
// kept.
func (e *Engine) superviseViewsLocked(kinds map[schema.GroupKind]bool, start starter) {
	var opened []*view
	resting := e.views.resting
	e.views.resting = map[kindAt]struct{}{}
	e.views.watches.Limit(e.o.Views(len(e.local.watches) + e.conflicts.WatchesLocked()))
	for gk := range kinds {
		for _, p := range e.clusters.peers {
			opened = append(opened, e.superviseSourceLocked(gk, p, start)...)
		}
	}
	for gk := range e.rules.kinds {
		if kinds[gk] {
			continue
		}
		for id := range e.supervisor.peers {
			opened = append(opened, e.superviseSourceLocked(gk, e.clusters.peers[id], start)...)
		}
	}
	for at := range resting {
		opened = append(opened, e.superviseSourceLocked(at.GroupKind, e.clusters.peers[at.peer], start)...)
	}
	for id := range e.chooseViewsLocked() {
		e.supervisor.peers[id] = true
		for gk := range e.rules.kinds {
			opened = append(opened, e.superviseSourceLocked(gk, e.clusters.peers[id], start)...)
		}
	}
	e.expectLocked(slices.DeleteFunc(opened, func(v *view) bool { return v.feed == nil })) // one that was not chosen is closed again
}

// superviseSourceLocked does it for one kind at one peer, and returns the views that were opened.
func (e *Engine) superviseSourceLocked(gk schema.GroupKind, p *peer, start starter) (opened []*view) {
	views := e.views.byPeer[p.ClusterID]
	var wanted map[Scope][]*rule
	var by uint64
	if e.mayHaveViewsLocked(p) {
		wanted, by = e.wantedViewsLocked(gk, p)
	}
	watches := &e.views.watches
	watches.Want(p.ClusterID, gk, len(wanted), by)
	maps.DeleteFunc(wanted, func(s Scope, _ []*rule) bool { return !watches.Opens(p.ClusterID, s, views[s] != nil) })
	for s, v := range views {
		if s.GVK.GroupKind() == gk && wanted[s] == nil {
			e.dropViewLocked(v)
		}
	}
	if views == nil && len(wanted) > 0 {
		views = map[Scope]*view{}
		e.views.byPeer[p.ClusterID] = views
	}
	for s, rules := range wanted {
		v := views[s]
		if v == nil && p.Source == nil {
			continue // nothing is known, as without a view
		}
		if v == nil {
			v = &view{
				viewKey: viewKey{p.ClusterID, s}, entries: map[types.NamespacedName]*entry{},
				since: time.Now(), usage: e.views.memory.Of(p.ClusterID),
			}
			views[s] = v
		}
		if v.feed != nil && v.feed.current(p, rules) && (v.feed.serves(p, rules) || e.restsLocked(v)) {
			continue
		}
		e.closeViewLocked(v)
		if p.Source == nil {
			continue // what is known stays known, and is not live
		}
		f := newFeed(e, v, p, rules)
		v.feed, v.since, v.answered = f, time.Now(), false
		f.stop = start(func(ctx context.Context) { e.watchView(ctx, f) })
		opened = append(opened, v)
	}
	if len(views) == 0 {
		delete(e.views.byPeer, p.ClusterID)
		if p.Left {
			e.views.memory.Forget(p.ClusterID)
			if !p.forgotten {
				e.views.selections.Left(p.ClusterID)
				p.forgotten = true
			}
		}
	}
	return opened
}

// listRest times as long as it took to judge its last list, a view is not listed anew because its rules are others: somebody may edit them all the time.
const listRest, listRestCap = 40, 20 * time.Second

// kindAt is what superviseSourceLocked looks at.
type kindAt struct {
	schema.GroupKind
	peer string
}

// restsLocked says that a view is not listed anew yet, and has it looked at once more.
func (e *Engine) restsLocked(v *view) bool {
	wait := min(listRest*v.took, listRestCap) - time.Since(v.since)
	if at := (kindAt{v.scope.GVK.GroupKind(), v.peer}); wait > 0 {
		if _, known := e.views.resting[at]; !known {
			e.views.resting[at] = struct{}{}
			time.AfterFunc(wait, e.superviseSoon)
		}
	}
	return wait > 0
}

// closeViewLocked ends the watch of a view; what it holds stays. dropViewLocked forgets it altogether.
func (e *Engine) closeViewLocked(v *view) {
	if v.feed != nil {
		v.feed.stop()
		v.feed = nil
	}
	e.doubtLocked(v)
	v.live, v.err = false, nil
	e.wakeWaitingLocked(v.peer)
}

func (e *Engine) dropViewLocked(v *view) {
	e.closeViewLocked(v)
	e.enqueueViewLocked(v, inforce.Everything)
	for at := range v.entries {
		e.dropEntryLocked(v, at)
	}
	e.countDueLocked()
	delete(e.views.byPeer[v.peer], v.scope)
}

// wantedViewsLocked are the scopes of a kind that rules need of a peer; by tells these rules from others.
func (e *Engine) wantedViewsLocked(gk schema.GroupKind, p *peer) (wanted map[Scope][]*rule, by uint64) {
	k := e.rules.kinds[gk]
	if p.Left || k == nil {
		return nil, 0
	}
	wanted = make(map[Scope][]*rule, len(k.readers))
	for _, r := range k.readers {
		if e.endedLocked(r, p.ClusterID) {
			continue
		}
		if _, watch, _ := e.relateLocked(r, p); watch {
			by ^= maphash.Comparable(e.views.seed, r.serial)
			for _, s := range r.scopes {
				wanted[s] = append(wanted[s], r)
			}
		}
	}
	return wanted, by
}

// enqueueViewLocked puts up what in a view is about some rules.
func (e *Engine) enqueueViewLocked(v *view, about func(rules []string) bool) {
	for at, ent := range v.entries {
		for to := range e.placesLocked(v, at, ent) {
			if ent.destinations.Any(ent.rules, to, about) {
				e.queue.EnqueueLocked(to)
			}
		}
	}
}

// enqueueKindLocked puts up the keys of a kind that are about some rules.
func (e *Engine) enqueueKindLocked(gk schema.GroupKind, about func(rules []string) bool) {
	for at, held := range e.views.holders[gk] {
		k := place.At(gk, at)
		if slices.ContainsFunc(held, func(h holding) bool { ent := h.v.entries[h.from]; return ent.destinations.Any(ent.rules, k, about) }) {
			e.queue.EnqueueLocked(k)
		}
	}
	for _, held := range e.views.holders[place.Anywhere(gk)] {
		for _, h := range held {
			if ent := h.v.entries[h.from]; about(ent.rules) {
				for to := range e.placesLocked(h.v, h.from, ent) {
					e.queue.EnqueueLocked(to)
				}
			}
		}
	}
	for at, c := range e.local.copies.All(gk) {
		k := place.At(gk, at)
		if (about(c.Rules) || len(c.Rules) >= maxMakers) && !abandoned(c, e.holdersLocked(k)) { // others than it names may have to do with so many
			e.queue.EnqueueLocked(k)
		}
	}
	for k := range e.local.early { // by what they were before
		if k.GroupKind == gk {
			e.queue.EnqueueLocked(k)
		}
	}
	for k, r := range e.outcomes.all() {
		if k.GroupKind == gk && (about(r.Rules) || slices.ContainsFunc(r.Offers, func(o tally.Offer) bool { return about(o.Rules) })) {
			e.queue.EnqueueLocked(k)
		}
	}
}

// comesLaterLocked says that a copy waits for the quota of the one author whose rules make it, and that no worker is about to take it out of that line.
func (e *Engine) comesLaterLocked(k Key, ent *entry) bool {
	return e.outcomes.quota.InLine(k) && !e.isWorkedOnLocked(k) && len(e.holdersLocked(k)) == 1 && len(ent.rules) <= maxMakers && len(e.authorsLocked(ent.rules)) == 1
}

// isWorkedOnLocked says that a worker has a key, and may know less of it than is known now.
func (e *Engine) isWorkedOnLocked(k Key) bool {
	_, has := e.local.early[k]
	return has
}

// settledLocked says that it changes nothing for a copy when all is known of its source: it is as it should be, and its source is there, or it is abandoned.
func (e *Engine) settledLocked(k Key, c *copies.Copy) bool {
	held, r := e.holdersLocked(k), e.outcomes.results[k]
	return !e.isWorkedOnLocked(k) && (abandoned(c, held) || r != nil && r.State == tally.Synced && slices.ContainsFunc(held, func(h holding) bool {
		return h.v.peer == c.Owner && h.v.key(h.from) == c.Source(k)
	}))
}

// abandoned says that a copy is an orphan, and nobody offers it.
func abandoned(c *copies.Copy, held []holding) bool { return c.Orphaned && len(held) == 0 }

// enqueuePeerLocked puts up every key that is about a peer.
func (e *Engine) enqueuePeerLocked(id string) {
	for _, v := range e.views.byPeer[id] {
		e.enqueueViewLocked(v, inforce.Everything)
	}
	for k := range e.local.copies.OwnedBy(id) {
		e.queue.EnqueueLocked(k)
	}
}
