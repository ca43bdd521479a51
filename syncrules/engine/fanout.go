// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
	"github.com/roster-mesh/roster/syncrules/fanout"
)

// A rule may make a copy of each object in every namespace that it selects (spec.targetNamespaces). Such a destination is a
// Key that stands for all of them, so that an entry and its index do not grow with the namespaces. Which ones these are,
// package namespaces knows.

// placesLocked are the places of the copies of an entry: in all namespaces that rules select for them, and where there are copies
// of it, which may be in namespaces that are not selected any more.
func (e *Engine) placesLocked(v *view, from types.NamespacedName, ent *entry) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for to := range ent.destinations.Places(v.key(from)) {
			if !to.Many() {
				if !yield(to) {
					return
				}
				continue
			}
			for i, d := range ent.destinations {
				if d.To != to || e.views.selections.Ended(selections.Of{Rule: ent.rules[i], Cluster: v.peer}) {
					continue
				}
				for namespace := range e.namespaces.InLocked(ent.rules[i], v.peer) {
					if !yield(to.In(namespace)) {
						return
					}
				}
			}
			for at := range e.local.copies.MovedFrom(to.GroupKind, v.peer, v.key(from)) {
				if !yield(place.At(to.GroupKind, at)) {
					return
				}
			}
			if own := v.key(from); own.GroupKind == to.GroupKind && e.local.copies.At(own) != nil && !yield(own) {
				return
			}
		}
	}
}

// countManyLocked counts by what an entry is more than the one before, or nil, for the rules that copy it into many namespaces.
func (e *Engine) countManyLocked(v *view, old, ent *entry) {
	loads := map[string]fanout.Load{}
	for _, x := range [...]struct {
		*entry
		n int
	}{{old, -1}, {ent, 1}} {
		if x.entry == nil {
			continue
		}
		for i, d := range x.destinations {
			if d.To.Many() {
				loads[x.rules[i]] = loads[x.rules[i]].Plus(fanout.Load{Objects: x.n, Bytes: int64(x.n) * x.size()})
			}
		}
	}
	for rule, load := range loads {
		if load != (fanout.Load{}) {
			e.namespaces.CountLocked(rule, v.peer, load)
			e.spreadLocked(rule, v.peer, e.namespaces.PlacesLocked(rule, v.peer))
		}
	}
}

// holdersLocked are the entries whose copies may belong in a place, in the order of their peers and sources.
func (e *Engine) holdersLocked(k Key) []holding {
	held := e.views.holders[k.GroupKind][k.NamespacedName()]
	if !e.namespaces.AnyLocked() || k.Namespace == "" {
		return held
	}
	many := k.Anywhere()
	more := e.views.holders[many.GroupKind][many.NamespacedName()]
	if len(more) == 0 {
		return held
	}
	all := slices.Concat(held, more)
	slices.SortFunc(all, holding.compare)
	return slices.Compact(all)
}

// findInLocked is what is known of a source that is there, and may be copied into the namespace of a place.
func (e *Engine) findInLocked(r *rule, v *view, to Key) syncrules.Found {
	switch answer, proven := e.namespaces.AnswerLocked(r.name, to.Namespace); {
	case answer == fanout.Yes:
		return syncrules.FoundPresent
	case answer == fanout.Unknown, !v.live:
		return syncrules.FoundUnknown
	case proven:
		return syncrules.FoundElsewhere
	}
	return syncrules.FoundLacking
}

// misplacedLocked says that a copy was written into a namespace that its rule has ceased to select meanwhile.
func (e *Engine) misplacedLocked(k Key, c *copies.Copy) bool {
	return slices.ContainsFunc(c.Rules, func(name string) bool {
		r := e.rules.byName[name]
		if r == nil || r.compiled == nil || r.compiled.FanOut() == nil {
			return false
		}
		f, _ := e.findLocked(r, c.Owner, c.Source(k), k)
		return f != syncrules.FoundPresent
	})
}

// outsideLocked says to people what keeps the copy of a source that is there out of a namespace, if it is this answer.
func (e *Engine) outsideLocked(r *rule, ent *entry, to Key, answer fanout.Answer) string {
	if is, _ := e.namespaces.AnswerLocked(r.name, to.Namespace); ent == nil || is != answer {
		return ""
	}
	return e.namespaces.ExplainLocked(r.name, to.Namespace)
}

// namespaceChangedLocked counts and puts up the copies in a namespace of which a rule gives another answer than before.
func (e *Engine) namespaceChangedLocked(rule, namespace string) {
	r := e.rules.byName[rule]
	if r == nil {
		return
	}
	e.respreadLocked(rule)
	lacks := false
	for _, gk := range r.kinds {
		for at := range e.views.holders[place.Anywhere(gk)] {
			k := Key{GroupKind: gk, Namespace: namespace, Name: at.Name}
			e.queue.EnqueueLocked(k)
			c := e.local.copies.At(k)
			switch {
			case c == nil || r.compiled == nil:
			case e.presentLocked(r, c.Owner, c.Source(k), k):
				e.clearLackLocked(r, c.Owner, k)
			case r.guard.Judged(c.Owner) && r.mayLack(c):
				if f, _ := e.findLocked(r, c.Owner, c.Source(k), k); f == syncrules.FoundLacking {
					r.guard.Lack(c.Owner, k, c.Disabled)
					lacks = true
				}
			}
		}
	}
	if lacks {
		e.guardRuleLocked(r)
	}
	e.recountLocked(rule)
}

// namespacesStaleLocked has all about a rule looked at again; uncounted, not before its copies were counted for the guard.
func (e *Engine) namespacesStaleLocked(rule string, uncounted bool) {
	r := e.rules.byName[rule]
	if r == nil {
		return
	}
	e.respreadLocked(rule)
	for _, id := range e.clusters.ids {
		if uncounted {
			r.guard.Doubt(id)
		}
	}
	e.staleRuleLocked(r)
	e.superviseSoon()
}

// selectsNamespacesLocked says that a rule in force must know the labels of namespaces.
func (e *Engine) selectsNamespacesLocked() bool {
	return e.rules.any(func(r *rule) bool { return r.compiled != nil && r.compiled.FanOut() != nil && !r.idle() })
}

// fanOut is what the rule selects of the namespaces, nil for nothing.
func (r *rule) fanOut() *fanout.Selector {
	if r.parsed == nil {
		return nil
	}
	return r.parsed.FanOut()
}
