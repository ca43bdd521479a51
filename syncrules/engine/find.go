// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// destinationOf asks the rule. It is called without mu.
func (f *feed) destinationOf(r *syncrules.Rule, obj *unstructured.Unstructured) place.Destination {
	gk := f.v.scope.GVK.GroupKind()
	if !r.Moves() {
		return place.Destination{To: place.KeyOf(gk, obj)}
	}
	if err := f.e.o.Consent.RefuseSource(obj, gk); err != nil {
		return place.Destination{Fault: problem.Describe(err, false), Refused: true}
	}
	in := f.input
	in.Into = metav1.NamespaceDefault // the name is the same in all
	to, err := r.Target(obj, in)
	if err != nil {
		return place.Destination{Fault: problem.Describe(err, gk.Kind == "Secret" && gk.Group == "")}
	}
	k := Key{GroupKind: to.GroupKind(), Namespace: to.Namespace, Name: to.Name}
	if r.FanOut() != nil {
		k = k.Anywhere()
	}
	return place.Destination{To: k}
}

// placedLike says that its copies belong in the places of the other one's, by the same rules.
func (a *entry) placedLike(o *entry) bool {
	return slices.Equal(a.destinations, o.destinations) && slices.Equal(a.rules, o.rules)
}

// destinationOf is where the copy that a rule makes belongs; false when the rule does not select the entry.
func (a *entry) destinationOf(rule string, home Key) (place.Destination, bool) {
	i := slices.Index(a.rules, rule)
	switch {
	case i < 0:
		return place.Destination{}, false
	case a.destinations == nil:
		return place.Destination{To: home}, true
	}
	return a.destinations[i], true
}

func (v *view) key(at types.NamespacedName) Key {
	return Key{GroupKind: v.scope.GVK.GroupKind(), Namespace: at.Namespace, Name: at.Name}
}

// tellFaultsLocked records what is wrong with an entry.
func (e *Engine) tellFaultsLocked(v *view, at types.NamespacedName, ent *entry) {
	r := &tally.Result{State: tally.Failed, Reason: problem.ReasonSourceObject}
	for i, a := range ent.destinations {
		if a.Fault == "" {
			continue
		}
		if r.Text == "" {
			r.Text = v.key(at).String() + " of cluster " + e.clusterNameLocked(v.peer) + ": " + a.Fault
			if a.Refused {
				r.Reason = problem.ReasonConsentRequired
			}
		}
		r.Rules = append(r.Rules, ent.rules[i])
	}
	if len(r.Rules) > 0 {
		r.Offers = []tally.Offer{{Origin: v.peer, Rules: r.Rules}}
		e.replaceLocked(e.outcomes.results, v.key(at).Fault(v.peer, v.scope), r)
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
		if v.judgedBy(r) {
			if ent := v.entries[at]; ent != nil {
				switch x, ok := ent.destinationOf(r.name, from); {
				case !ok:
				case x.Fault != "":
					return syncrules.FoundFaulty, ent
				case x.To == to:
					return syncrules.FoundPresent, ent
				case x.Reaches(to):
					return e.findInLocked(r, v, to), ent
				case v.live:
					return syncrules.FoundElsewhere, ent
				}
			}
			if v.live {
				if !v.gone.Has(at, to) {
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
