// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// The indexes make the work under Engine.mu follow what an event is about, not how many peers, views and copies
// there are. All of this file is called with mu held.

// copySet is the copies of one kind.
type copySet struct {
	at    map[types.NamespacedName]*copied
	by    map[string]map[types.NamespacedName]*copied // the same by owner
	ruled map[string]int                              // how many of them each rule decides about
	share map[ruledBy]int                             // the same of one owner

	orphans map[string]map[types.NamespacedName]struct{} // of each rule that made them
	moved   map[origin]map[types.NamespacedName]struct{} // those that are in another place than their source
}

// ruledBy is the copies of an owner that a rule decides about.
type ruledBy struct{ rule, owner string }

// origin is the source of a copy.
type origin struct {
	owner string
	from  Key
}

// find is safe on nil.
func (s *copySet) find(at types.NamespacedName) *copied {
	if s == nil {
		return nil
	}
	return s.at[at]
}

// all and of are the copies, of all owners and of one; safe on nil.
func (s *copySet) all() map[types.NamespacedName]*copied {
	if s == nil {
		return nil
	}
	return s.at
}

func (s *copySet) of(owner string) map[types.NamespacedName]*copied {
	if s == nil {
		return nil
	}
	return s.by[owner]
}

func (s *copySet) add(at types.NamespacedName, c *copied) {
	s.at[at] = c
	if s.by[c.owner] == nil {
		s.by[c.owner] = map[types.NamespacedName]*copied{}
	}
	s.by[c.owner][at] = c
	s.tally(c, 1)
	s.orphaned(at, c, true)
	if c.moved != nil {
		from := origin{c.owner, *c.moved}
		if s.moved[from] == nil {
			s.moved[from] = map[types.NamespacedName]struct{}{}
		}
		s.moved[from][at] = struct{}{}
	}
}

func (s *copySet) remove(at types.NamespacedName, c *copied) {
	delete(s.at, at)
	delete(s.by[c.owner], at)
	if len(s.by[c.owner]) == 0 {
		delete(s.by, c.owner)
	}
	s.tally(c, -1)
	s.orphaned(at, c, false)
	if c.moved != nil {
		from := origin{c.owner, *c.moved}
		delete(s.moved[from], at)
		if len(s.moved[from]) == 0 {
			delete(s.moved, from)
		}
	}
}

// movedFrom are the places of the copies that were made from a source and are elsewhere; safe on nil.
func (s *copySet) movedFrom(from origin) map[types.NamespacedName]struct{} {
	if s == nil {
		return nil
	}
	return s.moved[from]
}

func (s *copySet) tally(c *copied, n int) {
	for i, name := range c.rules {
		if c.ruled(name) && !slices.Contains(c.rules[:i], name) {
			if s.ruled[name] += n; s.ruled[name] == 0 {
				delete(s.ruled, name)
			}
			by := ruledBy{name, c.owner}
			if s.share[by] += n; s.share[by] == 0 {
				delete(s.share, by)
			}
		}
	}
}

func (e *Engine) copyAt(k Key) *copied { return e.copies[k.GroupKind].find(k.NamespacedName()) }

// putCopy and dropCopy keep copies.
func (e *Engine) putCopy(k Key, c *copied) {
	set := e.copies[k.GroupKind]
	if set == nil {
		set = &copySet{at: map[types.NamespacedName]*copied{}, by: map[string]map[types.NamespacedName]*copied{}, ruled: map[string]int{}, share: map[ruledBy]int{}, moved: map[origin]map[types.NamespacedName]struct{}{}}
		e.copies[k.GroupKind] = set
	}
	old := set.find(k.NamespacedName())
	if old != nil {
		c.tolerated = old.tolerated
		if c.accepted == (syncrules.Accepted{}) {
			c.accepted, c.dropped = old.accepted, old.dropped
		}
		set.remove(k.NamespacedName(), old)
	}
	set.add(k.NamespacedName(), c)
	if old == nil || !c.countsLike(old, k) {
		e.countCopy(k, old, c)
	}
}

func (e *Engine) dropCopy(k Key) {
	old := e.copyAt(k)
	if old == nil {
		return
	}
	set := e.copies[k.GroupKind]
	set.remove(k.NamespacedName(), old)
	if len(set.at) == 0 {
		delete(e.copies, k.GroupKind)
	}
	from := old.source(k)
	for _, name := range old.rules {
		e.lostCopy(name, old.owner, k)
	}
	for s, v := range e.views[old.owner] {
		if s.GVK.GroupKind() == from.GroupKind {
			delete(v.gone, passage{from.NamespacedName(), k})
		}
	}
	if e.draining {
		e.poke()
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

// putEntry and dropEntry keep the entries of a view.
func (e *Engine) putEntry(v *view, from types.NamespacedName, ent *entry) {
	old := v.entries[from]
	switch {
	case old == nil:
		e.index(v, from, ent)
		v.weighs(1, ent.size())
	case slices.Equal(old.aims, ent.aims):
		v.weighs(0, ent.size()-old.size())
	default:
		e.unindex(v, from, old)
		e.index(v, from, ent)
		v.weighs(0, ent.size()-old.size())
	}
	v.entries[from] = ent
	for to := range ent.targets(v.key(from)) {
		delete(v.gone, passage{from, to})
	}
	for _, name := range ent.rules {
		if r := e.rules[name]; r != nil {
			e.found(r, v.peer, v.key(from))
		}
	}
}

func (e *Engine) dropEntry(v *view, from types.NamespacedName) {
	if old := v.entries[from]; old != nil {
		v.weighs(-1, -old.size())
		e.unindex(v, from, old)
	}
	delete(v.entries, from)
}

// index notes that the view has an entry, and unindex that it has it no more.
func (e *Engine) index(v *view, from types.NamespacedName, ent *entry) {
	h := holding{v, from}
	for to := range ent.targets(v.key(from)) {
		held := e.holders[to.GroupKind]
		if held == nil {
			held = map[types.NamespacedName][]holding{}
			e.holders[to.GroupKind] = held
		}
		at := to.NamespacedName()
		i, _ := slices.BinarySearchFunc(held[at], h, holding.compare)
		held[at] = slices.Insert(held[at], i, h)
	}
	if ent.aims != nil {
		e.tellFaults(v, from, ent)
	}
}

func (e *Engine) unindex(v *view, from types.NamespacedName, ent *entry) {
	for to := range ent.targets(v.key(from)) {
		held, at := e.holders[to.GroupKind], to.NamespacedName()
		held[at] = slices.DeleteFunc(held[at], func(h holding) bool { return h.v == v && h.from == from })
		if len(held[at]) == 0 {
			delete(held, at)
		}
		if len(held) == 0 {
			delete(e.holders, to.GroupKind)
		}
	}
	if ent.aims != nil {
		e.forget(faultKey(v, from))
	}
}

func (v *view) weighs(objects, bytes int64) {
	v.held.add(objects, bytes)
	v.burden.held.add(objects, bytes)
}

func byPeer(a, b *view) int { return cmp.Compare(a.peer, b.peer) }

// awaits makes a key be looked at again when the peer has spoken, and wake is that.
func (e *Engine) awaits(k Key, peer string) {
	if e.waiting[peer] == nil {
		e.waiting[peer] = map[Key]struct{}{}
	}
	e.waiting[peer][k] = struct{}{}
}

func (e *Engine) wakeWaiting(peer string) {
	for k := range e.waiting[peer] {
		e.enqueue(k)
	}
	delete(e.waiting, peer)
}

// expect notes views that were opened just now, to be waited for.
func (e *Engine) expect(opened []*view) {
	kinds := map[schema.GroupKind]struct{}{}
	for _, v := range opened {
		for _, gk := range e.writtenFrom(v.feed.judges) {
			if _, ok := kinds[gk]; !ok {
				kinds[gk] = struct{}{}
				e.awaited[gk] = slices.DeleteFunc(e.awaited[gk], func(v *view) bool { return !v.awaited() })
			}
			e.awaited[gk] = append(e.awaited[gk], v)
		}
	}
	for gk := range kinds {
		slices.SortStableFunc(e.awaited[gk], byPeer)
	}
}

// writtenFrom are the kinds of the copies that rules make.
func (e *Engine) writtenFrom(rules map[string]string) []schema.GroupKind {
	var kinds []schema.GroupKind
	for name := range rules {
		r := e.rules[name]
		switch {
		case r == nil:
		case kinds == nil:
			kinds = r.kinds
		default:
			for _, gk := range r.kinds {
				if !slices.Contains(kinds, gk) {
					kinds = append(slices.Clip(kinds), gk)
				}
			}
		}
	}
	return kinds
}
