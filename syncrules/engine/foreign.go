// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/fingerprint"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/notify"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/verdict"
)

// maxObjectWatches bounds the watches of single objects that are in the way of copies. Where a kind has more, its
// rules' own scopes are watched here, maxConflictWatches of them. What neither sees is read again from time to time.
const maxObjectWatches, maxConflictWatches = 16, 256

// conflicts is what is in the way of copies.
type conflicts struct {
	wiring
	hash    fingerprint.Hasher
	objects map[Key]*foreign
	watches map[Scope]*conflictWatch // by the scope at a source
}

func newConflicts(w wiring, hash fingerprint.Hasher) conflicts {
	return conflicts{wiring: w, hash: hash, objects: map[Key]*foreign{}, watches: map[Scope]*conflictWatch{}}
}

// foreign is a local object without marks that has the name of a copy. It is watched, so that the copy can follow
// as soon as it is gone, and so that it need not be read again while it is as it was. Engine.mu guards it.
type foreign struct {
	gvk   schema.GroupVersionKind
	watch *notify.Sink // of this object alone; nil when there are too many
	// Memory is what was read; watched is the hash of what watch saw last, 0 for nothing.
	verdict.Memory
	watched uint64
	listed  bool // by watch
}

// seesLocked returns the hash of a foreign object as it is now, 0 if nothing watches it.
func (c *conflicts) seesLocked(k Key) uint64 {
	if f := c.objects[k]; f != nil && f.watch != nil {
		return f.watched
	}
	for s, g := range c.watches {
		if sum := g.hashes[k.NamespacedName()]; sum != 0 && s.GVK.GroupKind() == k.GroupKind {
			return sum
		}
	}
	return 0
}

// awaitLocked notes that something is in the way, or would be where a rule only looks.
func (c *conflicts) awaitLocked(j *job) *foreign {
	f := c.objects[j.key]
	if f == nil {
		f = &foreign{}
		if j.kind != nil {
			f.gvk = j.kind.written
		}
		c.objects[j.key] = f
		c.superviseSoon()
	}
	return f
}

// watchedLocked says that an object would be seen that appears in a place, whatever it is like: a watch of what a rule selects may not tell of it.
func (c *conflicts) watchedLocked(k Key) bool {
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	bare.SetNamespace(k.Namespace)
	bare.SetName(k.Name)
	for s, g := range c.watches {
		if s.GVK.GroupKind() == k.GroupKind && g.live && s.Covers(k.Namespace) && s.LabelSelector+s.FieldSelector == "" {
			if bare.SetGroupVersionKind(s.GVK); g.keep(bare) {
				return true
			}
		}
	}
	f := c.objects[k]
	return f != nil && f.watch != nil && f.listed
}

// gatherVerdictLocked spares reading a place that is as it was, where all that is offered was compared with it before: at
// any number of clusters, most have what others had.
func (c *conflicts) gatherVerdictLocked(j *job) {
	f := c.objects[j.key]
	if f == nil {
		return
	}
	j.foreign = true
	switch seen := c.seesLocked(j.key); {
	case seen == 0 && f.Absent:
		if j.absent = c.watchedLocked(j.key); !j.absent {
			j.recheck = foreignRetry - time.Since(f.Read)
			j.absent = j.recheck > 0
		}
		return
	case seen != 0 && seen != f.Sum:
		return
	case seen == 0:
		if j.recheck = foreignRetry - time.Since(f.Read); j.recheck <= 0 {
			return
		}
	}
	j.verdict, j.judged = f.Decide(j.offers(nil))
}

// offers are the claims that offer something; if w is given, something that can be rendered.
func (j *job) offers(w *weighed) (out []verdict.Offer) {
	for i := range j.claims {
		c := &j.claims[i]
		if c.Standing == syncrules.Offered && (w == nil || w.Claims[i].Standing == syncrules.Offered) {
			out = append(out, verdict.Offer{Origin: c.Origin, Content: c.content, Adopts: len(c.Adopters) > 0})
		}
	}
	return out
}

// superviseLocked watches what is in the way.
func (c *conflicts) superviseLocked(byAge []*rule, by inforce.Admissions, start starter) {
	open, ofKind := 0, map[schema.GroupKind]int{}
	for k, f := range c.objects {
		ofKind[k.GroupKind]++
		if f.watch != nil {
			open++
		}
	}
	c.superviseWatchesLocked(byAge, by, ofKind, start)
	for k, f := range c.objects {
		if open >= maxObjectWatches {
			break
		}
		if f.watch != nil || c.seesLocked(k) != 0 {
			continue
		}
		open++
		watch := &notify.Sink{Notify: func(obj *unstructured.Unstructured) { c.foreignSeen(k, f, obj) }}
		scope := Scope{GVK: f.gvk, Namespace: k.Namespace, FieldSelector: "metadata.name=" + k.Name}
		watch.Stop = c.watch(start, scope, nil, watch)
		f.listed = false
		f.watch = watch // not read by the goroutine: a conflictWatch may have taken its place before that runs
	}
}

func (c *conflicts) foreignSeen(k Key, f *foreign, obj *unstructured.Unstructured) {
	sum := uint64(0)
	if obj != nil {
		sum = c.hash.Foreign(obj)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.objects[k] == f {
		f.watched, f.listed = sum, true
		if sum != f.Sum || sum == 0 {
			if sum != 0 || !f.Absent {
				f.Changed()
			}
			c.enqueueLocked(k)
		}
	}
}

// clearLocked ends the watch of an object that is not in the way any more.
func (c *conflicts) clearLocked(k Key) {
	f := c.objects[k]
	if f == nil {
		return
	}
	delete(c.objects, k)
	if f.watch != nil {
		f.watch.Stop()
	}
	c.superviseSoon() // room for the next
}

// conflictWatch watches here what rules select at the sources, where that is often there already: the clusters get it
// from the same place. Of the objects only hashes are kept. Engine.mu guards it.
type conflictWatch struct {
	c      *conflicts
	scope  Scope
	rules  []*rule
	hashes map[types.NamespacedName]uint64
	live   bool // it sees what appears
	stop   func()
}

// superviseWatchesLocked opens and closes conflictWatches. Authors have their turns where there are too many.
func (c *conflicts) superviseWatchesLocked(byAge []*rule, by inforce.Admissions, foreign map[schema.GroupKind]int, start starter) {
	watched := map[schema.GroupKind]int{} // fewer are enough to stay so
	for s := range c.watches {
		watched[s.GVK.GroupKind()] = maxObjectWatches / 2
	}
	maps.DeleteFunc(foreign, func(gk schema.GroupKind, n int) bool { return n <= maxObjectWatches-watched[gk] })
	wanted, needs := map[Scope][]*rule{}, []inforce.Rule{}
	for _, r := range byAge {
		if foreign[r.kind()] == 0 || r.compiled == nil || r.moves || r.idle() {
			continue // what moves does not belong where the rule selects
		}
		needs = append(needs, inforce.Rule{Author: r.sharer(by.Root), Views: r.scopes})
		for _, s := range r.scopes {
			wanted[s] = append(wanted[s], r)
		}
	}
	if len(wanted) > maxConflictWatches {
		opens := inforce.ChooseHere(needs, maxConflictWatches, by)
		maps.DeleteFunc(wanted, func(s Scope, _ []*rule) bool { return !opens(s) })
	}
	for s, g := range c.watches {
		if !slices.Equal(g.rules, wanted[s]) {
			g.stop()
			delete(c.watches, s)
		}
	}
	for s, rules := range wanted {
		if c.watches[s] != nil {
			continue
		}
		g := &conflictWatch{c: c, scope: s, rules: rules, hashes: map[types.NamespacedName]uint64{}}
		c.watches[s] = g
		g.stop = c.watch(start, s.WithoutCopies(), g.keep, g)
	}
}

// keep is called without mu: compiled may be taken away meanwhile, parsed stays.
func (g *conflictWatch) keep(obj *unstructured.Unstructured) bool {
	return isSource(obj) && slices.ContainsFunc(g.rules, func(r *rule) bool { return r.parsed.Match(obj) })
}

// seeLocked notes what a place has, 0 for nothing.
func (g *conflictWatch) seeLocked(at types.NamespacedName, sum uint64) {
	if sum == 0 {
		delete(g.hashes, at)
	} else {
		g.hashes[at] = sum
	}
	k := place.At(g.scope.GVK.GroupKind(), at)
	f := g.c.objects[k]
	if f == nil {
		return
	}
	if sum == 0 || sum != f.Sum {
		f.Changed()
		g.c.enqueueLocked(k)
	}
	if sum != 0 && f.watch != nil {
		f.watch.Stop() // one is enough
		f.watch = nil
		g.c.superviseSoon()
	}
}

// Replace implements Sink.
func (g *conflictWatch) Replace(objs []*unstructured.Unstructured, _ string) {
	sums := make(map[types.NamespacedName]uint64, len(objs))
	for _, obj := range objs {
		if g.keep(obj) {
			sums[place.NameOf(obj)] = g.c.hash.Foreign(obj)
		}
	}
	g.c.lock.Lock()
	defer g.c.lock.Unlock()
	if g.c.watches[g.scope] != g {
		return
	}
	for at := range g.hashes {
		if sums[at] == 0 {
			g.seeLocked(at, 0)
		}
	}
	for at, sum := range sums {
		if g.hashes[at] != sum {
			g.seeLocked(at, sum)
		}
	}
}

// Upsert implements Sink.
func (g *conflictWatch) Upsert(obj *unstructured.Unstructured) {
	sum := uint64(0)
	if g.keep(obj) {
		sum = g.c.hash.Foreign(obj)
	}
	g.c.lock.Lock()
	defer g.c.lock.Unlock()
	if g.c.watches[g.scope] == g && g.hashes[place.NameOf(obj)] != sum {
		g.seeLocked(place.NameOf(obj), sum)
	}
}

// Delete implements Sink.
func (g *conflictWatch) Delete(namespace, name string, _ *unstructured.Unstructured) {
	g.c.lock.Lock()
	defer g.c.lock.Unlock()
	if g.c.watches[g.scope] == g {
		g.seeLocked(types.NamespacedName{Namespace: namespace, Name: name}, 0)
	}
}

// Health implements Sink. What was seen before an outage is believed until the next list: by that nothing is
// written.
func (g *conflictWatch) Health(err error) {
	g.c.lock.Lock()
	defer g.c.lock.Unlock()
	g.live = err == nil
}
