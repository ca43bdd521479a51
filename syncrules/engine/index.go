// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// The indexes make the work under Engine.mu follow what an event is about, not how many peers, views and copies
// there are.

// putCopyLocked and dropCopyLocked keep copies.
func (e *Engine) putCopyLocked(k Key, c *copies.Copy) {
	if old := e.local.copies.Put(k, c); old == nil || !c.CountsLike(old, k) {
		e.countCopyLocked(k, old, c)
	}
}

func (e *Engine) dropCopyLocked(k Key) {
	old := e.local.copies.Drop(k)
	if old == nil {
		return
	}
	from := old.Source(k)
	for _, name := range old.Rules {
		e.lostCopyLocked(name, old.Owner, k)
	}
	for s, v := range e.views.byPeer[old.Owner] {
		if s.GVK.GroupKind() == from.GroupKind {
			v.gone.Drop(from.NamespacedName(), k)
		}
	}
	if e.local.draining {
		e.superviseSoon()
	}
}

// holding is an entry of a view, in the index by the place of its copy.
type holding struct {
	v    *view
	from types.NamespacedName // of the entry
}

// compare orders holdings by peer and source.
func (h holding) compare(o holding) int {
	if c := byPeer(h.v, o.v); c != 0 {
		return c
	}
	return place.Compare(h.v.key(h.from), o.v.key(o.from))
}

// putEntryLocked and dropEntryLocked keep the entries of a view.
func (e *Engine) putEntryLocked(v *view, from types.NamespacedName, ent *entry) {
	old := v.entries[from]
	switch {
	case old == nil:
		e.selectedLocked(v, from, ent, 1)
		e.indexLocked(v, from, ent)
		v.weighs(1, ent.size())
	case ent.placedLike(old):
		v.weighs(0, ent.size()-old.size())
	default:
		e.unindexLocked(v, from, old)
		e.selectedLocked(v, from, old, -1)
		e.selectedLocked(v, from, ent, 1)
		e.indexLocked(v, from, ent)
		v.weighs(0, ent.size()-old.size())
	}
	v.entries[from] = ent
	e.countManyLocked(v, old, ent)
	v.gone.DropAll(from)
	for _, name := range ent.rules {
		if r := e.rules.byName[name]; r != nil {
			e.foundLocked(r, v.peer, v.key(from))
		}
	}
}

func (e *Engine) dropEntryLocked(v *view, from types.NamespacedName) {
	if old := v.entries[from]; old != nil {
		v.weighs(-1, -old.size())
		e.unindexLocked(v, from, old)
		e.selectedLocked(v, from, old, -1)
		e.countManyLocked(v, old, nil)
	}
	delete(v.entries, from)
}

// indexLocked notes that the view has an entry, and unindexLocked that it has it no more.
func (e *Engine) indexLocked(v *view, from types.NamespacedName, ent *entry) {
	h := holding{v, from}
	for to := range ent.destinations.Places(v.key(from)) {
		held := e.views.holders[to.GroupKind]
		if held == nil {
			held = map[types.NamespacedName][]holding{}
			e.views.holders[to.GroupKind] = held
		}
		at := to.NamespacedName()
		i, _ := slices.BinarySearchFunc(held[at], h, holding.compare)
		held[at] = slices.Insert(held[at], i, h)
	}
	if ent.destinations != nil {
		e.tellFaultsLocked(v, from, ent)
	}
}

func (e *Engine) unindexLocked(v *view, from types.NamespacedName, ent *entry) {
	for to := range ent.destinations.Places(v.key(from)) {
		held, at := e.views.holders[to.GroupKind], to.NamespacedName()
		held[at] = slices.DeleteFunc(held[at], func(h holding) bool { return h.v == v && h.from == from })
		if len(held[at]) == 0 {
			delete(held, at)
		}
		if len(held) == 0 {
			delete(e.views.holders, to.GroupKind)
		}
	}
	if ent.destinations != nil {
		e.forgetLocked(e.outcomes.results, v.key(from).Fault(v.peer, v.scope))
	}
}

func (v *view) weighs(objects, bytes int64) {
	v.held.Add(objects, bytes)
	v.usage.Hold(objects, bytes)
}

func byPeer(a, b *view) int { return cmp.Compare(a.peer, b.peer) }

// awaitLocked makes a key be looked at again when the peer has answered; wakeWaitingLocked says that it has.
func (e *Engine) awaitLocked(k Key, peer string) {
	if e.views.waiting[peer] == nil {
		e.views.waiting[peer] = map[Key]struct{}{}
	}
	e.views.waiting[peer][k] = struct{}{}
}

func (e *Engine) wakeWaitingLocked(peer string) {
	for k := range e.views.waiting[peer] {
		e.queue.EnqueueLocked(k)
	}
	delete(e.views.waiting, peer)
}

// expectLocked notes views that were opened just now, to be waited for.
func (e *Engine) expectLocked(opened []*view) {
	kinds := map[schema.GroupKind]struct{}{}
	for _, v := range opened {
		for _, gk := range e.writtenFromLocked(v.feed.judges) {
			if _, ok := kinds[gk]; !ok {
				kinds[gk] = struct{}{}
				e.views.awaited[gk] = slices.DeleteFunc(e.views.awaited[gk], func(v *view) bool { return !v.awaitedLocked() })
			}
			e.views.awaited[gk] = append(e.views.awaited[gk], v)
		}
	}
	for gk := range kinds {
		slices.SortStableFunc(e.views.awaited[gk], byPeer)
	}
}

// writtenFromLocked are the kinds of the copies that rules make.
func (e *Engine) writtenFromLocked(rules map[string]string) []schema.GroupKind {
	kinds := map[schema.GroupKind]struct{}{}
	for name := range rules {
		if r := e.rules.byName[name]; r != nil {
			for _, gk := range r.kinds {
				kinds[gk] = struct{}{}
			}
		}
	}
	return slices.Collect(maps.Keys(kinds))
}
