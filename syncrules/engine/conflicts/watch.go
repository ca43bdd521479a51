// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package conflicts

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Rule is a rule in force that moves nothing: what moves does not belong where the rule selects.
type Rule struct {
	Author string        // "" for the cluster itself, which shares with nobody
	Scopes []place.Scope // at a source
	// Form is the rule as it is now; after an edit it is another one. It is asked without the lock.
	Form *syncrules.Rule
}

// conflictWatch watches here what rules select at the sources, where that is often there already: the clusters get it
// from the same place. Of the objects only hashes are kept. The lock of the engine guards it.
type conflictWatch struct {
	c      *Conflicts
	scope  place.Scope
	rules  []*syncrules.Rule
	hashes map[types.NamespacedName]uint64
	live   bool // it sees what appears
	stop   func()
}

// WatchesLocked is how many scopes of rules are watched here.
func (c *Conflicts) WatchesLocked() int { return len(c.watches) }

// superviseWatchesLocked opens and closes conflictWatches. Authors have their turns where there are too many.
func (c *Conflicts) superviseWatchesLocked(rules iter.Seq[Rule], by inforce.Admissions, inTheWay map[schema.GroupKind]int, watch Watch) {
	watched := map[schema.GroupKind]int{} // fewer are enough to stay so
	for s := range c.watches {
		watched[s.GVK.GroupKind()] = MaxObjectWatches / 2
	}
	maps.DeleteFunc(inTheWay, func(gk schema.GroupKind, n int) bool { return n <= MaxObjectWatches-watched[gk] })
	wanted := wantedOf(rules, by, inTheWay)
	for s, w := range c.watches {
		if !slices.Equal(w.rules, wanted[s]) {
			w.stop()
			delete(c.watches, s)
		}
	}
	for s, forms := range wanted {
		if c.watches[s] != nil {
			continue
		}
		w := &conflictWatch{c: c, scope: s, rules: forms, hashes: map[types.NamespacedName]uint64{}}
		c.watches[s] = w
		w.stop = watch(s.WithoutCopies(), w.keep, w)
	}
}

// wantedOf is the scopes to watch, with the rules that select in each, for the kinds of which much is in the way.
func wantedOf(rules iter.Seq[Rule], by inforce.Admissions, kinds map[schema.GroupKind]int) map[place.Scope][]*syncrules.Rule {
	if len(kinds) == 0 {
		return nil
	}
	wanted, needs := map[place.Scope][]*syncrules.Rule{}, []inforce.Rule{}
	for r := range rules {
		if kinds[r.Form.Kind().GroupKind()] == 0 {
			continue
		}
		needs = append(needs, inforce.Rule{Author: r.Author, Views: r.Scopes})
		for _, s := range r.Scopes {
			wanted[s] = append(wanted[s], r.Form)
		}
	}
	if len(wanted) > MaxWatches {
		opens := inforce.ChooseHere(needs, MaxWatches, by)
		maps.DeleteFunc(wanted, func(s place.Scope, _ []*syncrules.Rule) bool { return !opens(s) })
	}
	return wanted
}

// keep is called without the lock.
func (w *conflictWatch) keep(obj *unstructured.Unstructured) bool {
	return syncrules.IsSource(obj) && slices.ContainsFunc(w.rules, func(r *syncrules.Rule) bool { return r.Match(obj) })
}

// seeLocked notes what a place has, 0 for nothing.
func (w *conflictWatch) seeLocked(at types.NamespacedName, sum uint64) {
	if sum == 0 {
		delete(w.hashes, at)
	} else {
		w.hashes[at] = sum
	}
	k := place.At(w.scope.GVK.GroupKind(), at)
	o := w.c.objects[k]
	if o == nil {
		return
	}
	if sum == 0 || sum != o.Sum {
		o.Changed()
		w.c.e.EnqueueLocked(k)
	}
	if sum != 0 && o.watch != nil {
		o.watch.Stop() // one is enough
		o.watch = nil
		w.c.e.SuperviseSoon()
	}
}

// Replace implements Sink.
func (w *conflictWatch) Replace(objs []*unstructured.Unstructured, _ string) {
	sums := make(map[types.NamespacedName]uint64, len(objs))
	for _, obj := range objs {
		if w.keep(obj) {
			sums[place.NameOf(obj)] = w.c.hash.Foreign(obj)
		}
	}
	w.c.e.Lock.Lock()
	defer w.c.e.Lock.Unlock()
	if w.c.watches[w.scope] != w {
		return
	}
	for at := range w.hashes {
		if sums[at] == 0 {
			w.seeLocked(at, 0)
		}
	}
	for at, sum := range sums {
		if w.hashes[at] != sum {
			w.seeLocked(at, sum)
		}
	}
}

// Upsert implements Sink.
func (w *conflictWatch) Upsert(obj *unstructured.Unstructured) {
	sum := uint64(0)
	if w.keep(obj) {
		sum = w.c.hash.Foreign(obj)
	}
	w.c.e.Lock.Lock()
	defer w.c.e.Lock.Unlock()
	if w.c.watches[w.scope] == w && w.hashes[place.NameOf(obj)] != sum {
		w.seeLocked(place.NameOf(obj), sum)
	}
}

// Delete implements Sink.
func (w *conflictWatch) Delete(namespace, name string, _ *unstructured.Unstructured) {
	w.c.e.Lock.Lock()
	defer w.c.e.Lock.Unlock()
	if w.c.watches[w.scope] == w {
		w.seeLocked(types.NamespacedName{Namespace: namespace, Name: name}, 0)
	}
}

// Health implements Sink. What was seen before an outage is believed until the next list: by that nothing is
// written.
func (w *conflictWatch) Health(err error) {
	w.c.e.Lock.Lock()
	defer w.c.e.Lock.Unlock()
	w.live = err == nil
}
