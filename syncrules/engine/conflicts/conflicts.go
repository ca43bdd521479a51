// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package conflicts

import (
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/fingerprint"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/notify"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/verdict"
)

// MaxObjectWatches bounds the watches of single objects that are in the way of copies. Where a kind has more, its
// rules' own scopes are watched here, MaxWatches of them. What neither sees is read again from time to time.
const MaxObjectWatches, MaxWatches = 16, 256

// Retry is after which time an object in the way that is not watched is read again.
const Retry = 5 * time.Minute

// Engine is what is needed of it.
type Engine struct {
	Lock          sync.Locker
	SuperviseSoon func()          // calls SuperviseLocked
	EnqueueLocked func(place.Key) // puts a copy up for a decision
}

// Watch watches the local API server, until stop is called. keep is nil for all.
type Watch func(scope place.Scope, keep func(*unstructured.Unstructured) bool, sink place.Sink) (stop func())

// Conflicts is what is in the way of copies.
type Conflicts struct {
	e       Engine
	hash    fingerprint.Hasher
	objects map[place.Key]*object
	watches map[place.Scope]*conflictWatch // by the scope at a source
}

// New knows of nothing that is in the way.
func New(e Engine, hash fingerprint.Hasher) *Conflicts {
	return &Conflicts{e: e, hash: hash, objects: map[place.Key]*object{}, watches: map[place.Scope]*conflictWatch{}}
}

// object is a local object without marks that has the name of a copy. It is watched, so that the copy can follow
// as soon as it is gone, and so that it need not be read again while it is as it was. The lock of the engine guards it.
type object struct {
	gvk   schema.GroupVersionKind
	watch *notify.Sink // of this object alone; nil when there are too many
	// Memory is what was read; watched is the hash of what watch saw last, 0 for nothing.
	verdict.Memory
	watched uint64
	listed  bool // by watch
}

// seesLocked returns the hash of an object in the way as it is now, 0 if nothing watches it.
func (c *Conflicts) seesLocked(k place.Key) uint64 {
	if o := c.objects[k]; o != nil && o.watch != nil {
		return o.watched
	}
	for s, w := range c.watches {
		if sum := w.hashes[k.NamespacedName()]; sum != 0 && s.GVK.GroupKind() == k.GroupKind {
			return sum
		}
	}
	return 0
}

// awaitLocked notes that something is in the way, or would be where a rule only looks.
func (c *Conflicts) awaitLocked(k place.Key, gvk schema.GroupVersionKind) *object {
	o := c.objects[k]
	if o == nil {
		o = &object{gvk: gvk}
		c.objects[k] = o
		c.e.SuperviseSoon()
	}
	return o
}

// MissedLocked notes that nothing was found in a place where a rule only looks, and says whether an object would be seen that
// appears there. It is looked for in the given version.
func (c *Conflicts) MissedLocked(k place.Key, gvk schema.GroupVersionKind) (watched bool) {
	c.awaitLocked(k, gvk).Missed(time.Now())
	return c.watchedLocked(k)
}

// FoundLocked notes what was found in the way, and what was decided about it and what is offered in its place. It says whether
// the object is seen when it changes; it is looked for in the given version.
func (c *Conflicts) FoundLocked(k place.Key, gvk schema.GroupVersionKind, obj *unstructured.Unstructured, d syncrules.Decision, offers []verdict.Offer) (watched bool) {
	o := c.awaitLocked(k, gvk)
	o.Take(c.hash.Foreign(obj), time.Now(), d, offers)
	return o.watch != nil || c.seesLocked(k) != 0
}

// watchedLocked says that an object would be seen that appears in a place, whatever it is like: a watch of what a rule selects may not tell of it.
func (c *Conflicts) watchedLocked(k place.Key) bool {
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	bare.SetNamespace(k.Namespace)
	bare.SetName(k.Name)
	for s, w := range c.watches {
		if s.GVK.GroupKind() == k.GroupKind && w.live && s.Covers(k.Namespace) && s.LabelSelector+s.FieldSelector == "" {
			if bare.SetGroupVersionKind(s.GVK); w.keep(bare) {
				return true
			}
		}
	}
	o := c.objects[k]
	return o != nil && o.watch != nil && o.listed
}

// Known is what is known of a place in which something was in the way, without reading it.
type Known struct {
	Absent  bool               // nothing is there
	Judged  bool               // what is there is as it was, and all that is offered was compared with it
	Verdict syncrules.Decision // what follows from that
	Recheck time.Duration      // after which that is to be read again, if it is set
}

// KnownLocked spares reading a place that is as it was, where all that is offered was compared with it before: at any
// number of clusters, most have what others had. noted says that something was in the way, or looked for.
func (c *Conflicts) KnownLocked(k place.Key, offers func() []verdict.Offer) (known Known, noted bool) {
	o := c.objects[k]
	if o == nil {
		return known, false
	}
	switch seen := c.seesLocked(k); {
	case seen == 0 && o.Absent:
		if known.Absent = c.watchedLocked(k); !known.Absent {
			known.Recheck = Retry - time.Since(o.Read)
			known.Absent = known.Recheck > 0
		}
		return known, true
	case seen != 0 && seen != o.Sum:
		return known, true
	case seen == 0:
		if known.Recheck = Retry - time.Since(o.Read); known.Recheck <= 0 {
			return known, true
		}
	}
	known.Verdict, known.Judged = o.Decide(offers())
	return known, true
}

// SuperviseLocked watches what is in the way. The rules, the oldest first, are asked for only while a kind has much of that.
func (c *Conflicts) SuperviseLocked(rules iter.Seq[Rule], by inforce.Admissions, watch Watch) {
	open, ofKind := 0, map[schema.GroupKind]int{}
	for k, o := range c.objects {
		ofKind[k.GroupKind]++
		if o.watch != nil {
			open++
		}
	}
	c.superviseWatchesLocked(rules, by, ofKind, watch)
	for k, o := range c.objects {
		if open >= MaxObjectWatches {
			break
		}
		if o.watch != nil || c.seesLocked(k) != 0 {
			continue
		}
		open++
		sink := &notify.Sink{Notify: func(obj *unstructured.Unstructured) { c.seen(k, o, obj) }}
		scope := place.Scope{GVK: o.gvk, Namespace: k.Namespace, FieldSelector: "metadata.name=" + k.Name}
		sink.Stop = watch(scope, nil, sink)
		o.listed = false
		o.watch = sink // not read by the goroutine: a conflictWatch may have taken its place before that runs
	}
}

// seen takes what the watch of one object tells of it, nil for nothing.
func (c *Conflicts) seen(k place.Key, o *object, obj *unstructured.Unstructured) {
	sum := uint64(0)
	if obj != nil {
		sum = c.hash.Foreign(obj)
	}
	c.e.Lock.Lock()
	defer c.e.Lock.Unlock()
	if c.objects[k] == o {
		o.watched, o.listed = sum, true
		if sum != o.Sum || sum == 0 {
			if sum != 0 || !o.Absent {
				o.Changed()
			}
			c.e.EnqueueLocked(k)
		}
	}
}

// ClearLocked ends the watch of an object that is not in the way any more.
func (c *Conflicts) ClearLocked(k place.Key) {
	o := c.objects[k]
	if o == nil {
		return
	}
	delete(c.objects, k)
	if o.watch != nil {
		o.watch.Stop()
	}
	c.e.SuperviseSoon() // room for the next
}
