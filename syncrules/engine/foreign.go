// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/fingerprint"
	"github.com/roster-mesh/roster/syncrules/engine/notify"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// maxObjectWatches bounds the watches of single objects that are in the way of copies. Where a kind has more, its
// rules' own scopes are watched here (conflictWatch). What neither sees is read again from time to time.
const maxObjectWatches = 16

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
	// sum is of the object as it was read, and when; 0 when it is known to be different now. watched is what
	// watch saw last, 0 for nothing.
	sum, watched uint64
	read         time.Time
	// verdicts say, of the contents of claims, whether the object that was read already has what they bring.
	verdicts map[uint64]bool
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

// watchedLocked says that an object would be seen that appears in a place.
func (c *conflicts) watchedLocked(k Key) bool {
	f := c.objects[k]
	for s := range c.watches {
		if s.GVK.GroupKind() == k.GroupKind && s.Covers(k.Namespace) {
			return true
		}
	}
	return f != nil && f.watch != nil
}

// gatherVerdictLocked spares reading a foreign object that is as it was, where all that is offered was compared with
// it before: at any number of clusters, most have what others had.
func (c *conflicts) gatherVerdictLocked(j *job) {
	f := c.objects[j.key]
	if f == nil {
		return
	}
	j.foreign = true
	switch seen := c.seesLocked(j.key); {
	case f.sum == 0, seen != 0 && seen != f.sum:
		return
	case seen == 0:
		if j.recheck = foreignRetry - time.Since(f.read); j.recheck <= 0 {
			return
		}
	}
	offered := 0
	for i := range j.claims {
		claim := &j.claims[i]
		if claim.Standing != syncrules.Offered {
			continue
		}
		same, known := f.verdicts[claim.content]
		if !known || len(claim.Adopters) > 0 {
			return
		}
		offered++
		if !same {
			j.rivals = append(j.rivals, claim.Origin)
		}
	}
	j.judged = offered > 0
}

// takeVerdictLocked remembers what was found by reading a foreign object.
func (c *conflicts) takeVerdictLocked(f *foreign, obj *unstructured.Unstructured, j *job, w *weighed, d syncrules.Decision) {
	sum := c.hash.Foreign(obj)
	if f.sum != sum || len(f.verdicts) > 2*len(j.claims)+maxObjectWatches {
		f.sum, f.verdicts = sum, map[uint64]bool{}
	}
	f.read = time.Now()
	rivals := make(map[string]bool, len(d.Rivals))
	for _, id := range d.Rivals {
		rivals[id] = true
	}
	for i := range w.Claims {
		if claim := &w.Claims[i]; claim.Standing == syncrules.Offered {
			f.verdicts[j.claims[i].content] = !rivals[claim.Origin]
		}
	}
}

// superviseLocked watches what is in the way.
func (c *conflicts) superviseLocked(kinds map[schema.GroupKind]*kind, start starter) {
	open, ofKind := 0, map[schema.GroupKind]int{}
	for k, f := range c.objects {
		ofKind[k.GroupKind]++
		if f.watch != nil {
			open++
		}
	}
	c.superviseWatchesLocked(kinds, ofKind, start)
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
		f.watched = sum
		if sum != f.sum || sum == 0 {
			f.sum = 0
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
	stop   func()
}

// superviseWatchesLocked opens and closes conflictWatches.
func (c *conflicts) superviseWatchesLocked(kinds map[schema.GroupKind]*kind, foreign map[schema.GroupKind]int, start starter) {
	wanted := map[Scope][]*rule{}
	for gk, k := range kinds {
		if n := foreign[gk]; n > maxObjectWatches || n > maxObjectWatches/2 && c.watchedKind(gk) {
			for _, r := range k.writers {
				if r.moves || r.idle() {
					continue // what moves does not belong where the rule selects
				}
				for _, s := range r.scopes {
					wanted[s] = append(wanted[s], r)
				}
			}
		}
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

func (c *conflicts) watchedKind(gk schema.GroupKind) bool {
	for s := range c.watches {
		if s.GVK.GroupKind() == gk {
			return true
		}
	}
	return false
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
	if sum == 0 || sum != f.sum {
		f.sum = 0
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
func (*conflictWatch) Health(error) {}
