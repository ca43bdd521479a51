// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// maxObjectWatches bounds the watches of single objects that are in the way of copies. Where a kind has more, its
// rules' own scopes are watched here (conflictWatch). What neither sees is read again from time to time.
const maxObjectWatches = 16

// conflicts is what is in the way of copies.
type conflicts struct {
	objects map[Key]*foreign
	watches map[Scope]*conflictWatch // by the scope at a source
}

func newConflicts() conflicts {
	return conflicts{objects: map[Key]*foreign{}, watches: map[Scope]*conflictWatch{}}
}

// foreign is a local object without marks that has the name of a copy. It is watched, so that the copy can follow
// as soon as it is gone, and so that it need not be read again while it is as it was. Engine.mu guards it.
type foreign struct {
	gvk   schema.GroupVersionKind
	watch *notifySink // of this object alone; nil when there are too many
	// sum is of the object as it was read, and when; 0 when it is known to be different now. watched is what
	// watch saw last, 0 for nothing.
	sum, watched uint64
	read         time.Time
	// verdicts say, of the contents of claims, whether the object that was read already has what they bring.
	verdicts map[uint64]bool
}

// sumOf hashes what a copy would take over of an object. The hash is of this process alone, so that nobody can
// look for two objects that have the same.
func (e *Engine) sumOf(obj *unstructured.Unstructured) uint64 {
	content := maps.Clone(obj.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	syncrules.Trim(&unstructured.Unstructured{Object: content})
	data, err := json.Marshal(content)
	if err != nil {
		return 0 // no API server sent it
	}
	return maphash.Bytes(e.seed, data)
}

// contentOf hashes what a claim brings: what the source has, and the rules, in their present form, that make a
// copy of it.
func (e *Engine) contentOf(sum uint64, rules []*rule, p *peer) uint64 {
	for _, r := range rules {
		sum = maphash.Comparable(e.seed, [2]uint64{sum, r.serial})
		if r.reads { // the clusters, one of which is no other peer's
			sum = maphash.Comparable(e.seed, [3]uint64{sum, p.seen.serial, e.clusters.snapshot.serial})
		}
	}
	return sum
}

// seesLocked returns the hash of a foreign object as it is now, 0 if nothing watches it.
func (e *Engine) seesLocked(k Key) uint64 {
	if f := e.conflicts.objects[k]; f != nil && f.watch != nil {
		return f.watched
	}
	for s, g := range e.conflicts.watches {
		if sum := g.hashes[k.NamespacedName()]; sum != 0 && s.GVK.GroupKind() == k.GroupKind {
			return sum
		}
	}
	return 0
}

// gatherVerdictLocked spares reading a foreign object that is as it was, where all that is offered was compared with
// it before: at any number of clusters, most have what others had.
func (e *Engine) gatherVerdictLocked(j *job) {
	f := e.conflicts.objects[j.key]
	if f == nil {
		return
	}
	j.foreign = true
	switch seen := e.seesLocked(j.key); {
	case f.sum == 0, seen != 0 && seen != f.sum:
		return
	case seen == 0:
		if j.recheck = foreignRetry - time.Since(f.read); j.recheck <= 0 {
			return
		}
	}
	offered := 0
	for i := range j.claims {
		c := &j.claims[i]
		if c.Standing != syncrules.Offered {
			continue
		}
		same, known := f.verdicts[c.content]
		if !known {
			return
		}
		offered++
		if !same {
			j.rivals = append(j.rivals, c.Origin)
		}
	}
	j.judged = offered > 0
}

// takeVerdictLocked remembers what was found by reading a foreign object.
func (e *Engine) takeVerdictLocked(f *foreign, obj *unstructured.Unstructured, j *job, w *weighed, d syncrules.Decision) {
	sum := e.sumOf(obj)
	if f.sum != sum || len(f.verdicts) > 2*len(j.claims)+maxObjectWatches {
		f.sum, f.verdicts = sum, map[uint64]bool{}
	}
	f.read = time.Now()
	rivals := make(map[string]bool, len(d.Rivals))
	for _, id := range d.Rivals {
		rivals[id] = true
	}
	for i := range w.Claims {
		if c := &w.Claims[i]; c.Standing == syncrules.Offered {
			f.verdicts[j.claims[i].content] = !rivals[c.Origin]
		}
	}
}

// superviseForeignLocked watches what is in the way.
func (e *Engine) superviseForeignLocked(start starter) {
	open, ofKind := 0, map[schema.GroupKind]int{}
	for k, f := range e.conflicts.objects {
		ofKind[k.GroupKind]++
		if f.watch != nil {
			open++
		}
	}
	e.superviseWatchesLocked(ofKind, start)
	for k, f := range e.conflicts.objects {
		if open >= maxObjectWatches {
			break
		}
		if f.watch != nil || e.seesLocked(k) != 0 {
			continue
		}
		open++
		watch := &notifySink{notify: func(obj *unstructured.Unstructured) { e.foreignSeen(k, f, obj) }}
		scope := Scope{GVK: f.gvk, Namespace: k.Namespace, FieldSelector: "metadata.name=" + k.Name}
		watch.stop = start(func(ctx context.Context) { e.watch(ctx, e.o.Local, scope, nil, watch) })
		f.watch = watch // not read by the goroutine: a conflictWatch may have taken its place before that runs
	}
}

func (e *Engine) foreignSeen(k Key, f *foreign, obj *unstructured.Unstructured) {
	sum := uint64(0)
	if obj != nil {
		sum = e.sumOf(obj)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conflicts.objects[k] == f {
		f.watched = sum
		if sum != f.sum || sum == 0 {
			f.sum = 0
			e.queue.enqueueLocked(k)
		}
	}
}

// standsAsideLocked ends the watch of an object that is not in the way any more.
func (e *Engine) standsAsideLocked(k Key) {
	f := e.conflicts.objects[k]
	if f == nil {
		return
	}
	delete(e.conflicts.objects, k)
	if f.watch != nil {
		f.watch.stop()
	}
	e.superviseSoon() // room for the next
}

// conflictWatch watches here what rules select at the sources, where that is often there already: the clusters get it
// from the same place. Of the objects only hashes are kept. Engine.mu guards it.
type conflictWatch struct {
	e      *Engine
	scope  Scope
	rules  []*rule
	hashes map[types.NamespacedName]uint64
	stop   func()
}

// superviseWatchesLocked opens and closes conflictWatches.
func (e *Engine) superviseWatchesLocked(foreign map[schema.GroupKind]int, start starter) {
	wanted := map[Scope][]*rule{}
	for gk, k := range e.rules.kinds {
		if n := foreign[gk]; n > maxObjectWatches || n > maxObjectWatches/2 && e.watchedKind(gk) {
			for _, r := range k.writers {
				if r.moves || r.clash != "" {
					continue // what moves does not belong where the rule selects
				}
				for _, s := range r.scopes {
					wanted[s] = append(wanted[s], r)
				}
			}
		}
	}
	for s, g := range e.conflicts.watches {
		if !slices.Equal(g.rules, wanted[s]) {
			g.stop()
			delete(e.conflicts.watches, s)
		}
	}
	for s, rules := range wanted {
		if e.conflicts.watches[s] != nil {
			continue
		}
		g := &conflictWatch{e: e, scope: s, rules: rules, hashes: map[types.NamespacedName]uint64{}}
		e.conflicts.watches[s] = g
		g.stop = start(func(ctx context.Context) { e.watch(ctx, e.o.Local, s.WithoutCopies(), g.keep, g) })
	}
}

func (e *Engine) watchedKind(gk schema.GroupKind) bool {
	for s := range e.conflicts.watches {
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
	f := g.e.conflicts.objects[k]
	if f == nil {
		return
	}
	if sum == 0 || sum != f.sum {
		f.sum = 0
		g.e.queue.enqueueLocked(k)
	}
	if sum != 0 && f.watch != nil {
		f.watch.stop() // one is enough
		f.watch = nil
		g.e.superviseSoon()
	}
}

// Replace implements Sink.
func (g *conflictWatch) Replace(objs []*unstructured.Unstructured, _ string) {
	sums := make(map[types.NamespacedName]uint64, len(objs))
	for _, obj := range objs {
		if g.keep(obj) {
			sums[place.NameOf(obj)] = g.e.sumOf(obj)
		}
	}
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	if g.e.conflicts.watches[g.scope] != g {
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
		sum = g.e.sumOf(obj)
	}
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	if g.e.conflicts.watches[g.scope] == g && g.hashes[place.NameOf(obj)] != sum {
		g.seeLocked(place.NameOf(obj), sum)
	}
}

// Delete implements Sink.
func (g *conflictWatch) Delete(namespace, name string, _ *unstructured.Unstructured) {
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	if g.e.conflicts.watches[g.scope] == g {
		g.seeLocked(types.NamespacedName{Namespace: namespace, Name: name}, 0)
	}
}

// Health implements Sink. What was seen before an outage is believed until the next list: by that nothing is
// written.
func (*conflictWatch) Health(error) {}
