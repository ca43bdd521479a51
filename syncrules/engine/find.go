// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// A rule may put a copy into another place than its source: of another kind, name or namespace. Every entry of a
// view knows where the copies of it belong, and every copy where it came from. Both are nil where that is the same
// place, as nearly always.

// aim is where the copy that one rule makes of an entry belongs.
type aim struct {
	to    Key
	fault string // why that cannot be told, for people; "" normally
}

// passage is a copy and its source.
type passage struct {
	from types.NamespacedName
	to   Key
}

// aim asks the rule. It is called without mu.
func (f *feed) aim(r *syncrules.Rule, obj *unstructured.Unstructured) aim {
	gk := f.v.scope.GVK.GroupKind()
	if !r.Moves() {
		return aim{to: place.KeyOf(gk, obj)}
	}
	to, err := r.Target(obj, f.input)
	if err != nil {
		return aim{fault: problem.Describe(err, gk.Kind == "Secret" && gk.Group == "")}
	}
	return aim{to: Key{GroupKind: to.GroupKind(), Namespace: to.Namespace, Name: to.Name}}
}

// aimsUnlessHome is nil where all copies are in the place of their source.
func aimsUnlessHome(aims []aim, home Key) []aim {
	if slices.ContainsFunc(aims, func(a aim) bool { return a != aim{to: home} }) {
		return aims
	}
	return nil
}

// targets are the places of the copies, each once; home is that of the entry.
func (a *entry) targets(home Key) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		if a.aims == nil {
			yield(home)
			return
		}
		for i, x := range a.aims {
			if x.fault == "" && !slices.Contains(a.aims[:i], x) && !yield(x.to) {
				return
			}
		}
	}
}

// faulty says that where some copy of it belongs cannot be told.
func (a *entry) faulty() bool {
	return slices.ContainsFunc(a.aims, func(x aim) bool { return x.fault != "" })
}

// aimOf is where the copy that a rule makes belongs; false when the rule does not select the entry.
func (a *entry) aimOf(rule string, home Key) (aim, bool) {
	i := slices.Index(a.rules, rule)
	switch {
	case i < 0:
		return aim{}, false
	case a.aims == nil:
		return aim{to: home}, true
	}
	return a.aims[i], true
}

func (v *view) key(at types.NamespacedName) Key {
	return Key{GroupKind: v.scope.GVK.GroupKind(), Namespace: at.Namespace, Name: at.Name}
}

// faultKey is the key under which it is recorded that the copies of an entry have no place. No copy has it: there
// is no such kind.
func faultKey(v *view, at types.NamespacedName) Key {
	k := v.key(at)
	k.Kind += " of cluster " + v.peer + " in " + v.scope.Namespace + " " + v.scope.LabelSelector + " " + v.scope.FieldSelector
	return k
}

// tellFaultsLocked records what is wrong with an entry.
func (e *Engine) tellFaultsLocked(v *view, at types.NamespacedName, ent *entry) {
	r := &tally.Result{State: tally.Failed, Reason: problem.ReasonSourceObject}
	for i, a := range ent.aims {
		if a.fault == "" {
			continue
		}
		if r.Text == "" {
			r.Text = v.key(at).String() + " of cluster " + e.clusterNameLocked(v.peer) + ": " + a.fault
		}
		r.Rules = append(r.Rules, ent.rules[i])
	}
	if len(r.Rules) > 0 {
		r.Offers = []tally.Offer{{Origin: v.peer, Rules: r.Rules}}
		e.replaceLocked(faultKey(v, at), r)
	}
}

// covers says that the rule reads objects of the place at its sources.
func (r *rule) covers(from Key) bool {
	return r.kind() == from.GroupKind && slices.ContainsFunc(r.scopes, func(s Scope) bool { return s.Covers(from.Namespace) })
}

// findLocked asks the views of a peer for the source that a rule makes a copy of.
func (e *Engine) findLocked(r *rule, peer string, from, to Key) (syncrules.Found, *entry) {
	if r.kind() != from.GroupKind {
		return syncrules.FoundElsewhere, nil
	}
	at := from.NamespacedName()
	best := syncrules.FoundDeleted
	covered := false
	for _, s := range r.scopes {
		if !s.Covers(at.Namespace) {
			continue
		}
		covered = true
		v := e.views.byPeer[peer][s]
		if v == nil {
			return syncrules.FoundUnknown, nil
		}
		if selection, ok := v.judges[r.name]; ok && selection == r.selection {
			if ent := v.entries[at]; ent != nil {
				switch x, ok := ent.aimOf(r.name, from); {
				case !ok:
				case x.fault != "":
					return syncrules.FoundFaulty, ent
				case x.to == to:
					return syncrules.FoundPresent, ent
				case v.live:
					return syncrules.FoundElsewhere, ent
				}
			}
			if v.live {
				if _, seen := v.gone[passage{at, to}]; !seen {
					best = min(best, syncrules.FoundLacking)
				}
				continue
			}
		}
		best = syncrules.FoundUnknown
		if v.awaitedLocked() {
			best = syncrules.FoundAwaited
		}
	}
	if !covered {
		best = syncrules.FoundLacking
	}
	return best, nil
}
