// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// Back-off of a view that was too large.
const (
	tooMuchRetry    = 5 * time.Minute
	tooMuchRetryCap = time.Hour
)

// admit counts an object that the Source is about to collect. A Source hands over a list when it is complete:
// one without end would otherwise fill the memory before anybody here saw it. It is called from any goroutine.
func (f *feed) admit(obj *unstructured.Unstructured, first int) bool {
	if f.aborted() {
		return false
	}
	c, of := &f.coming, f.v.usage
	grew := c.Collect(memory.Arrival{Name: place.NameOf(obj), Version: obj.GetResourceVersion(), First: first}, packed.SizeOf(obj.Object), of, &f.v.held)
	switch {
	case c.Exceeds(f.e.o.View.Objects, f.e.o.View.Bytes), of.Coming.Exceeds(f.e.o.Peer.Objects, f.e.o.Peer.Bytes):
		f.abort(f.e.o.TooMuch())
		return false
	case grew && !of.Fits(0):
		f.e.mu.Lock()
		defer f.e.mu.Unlock()
		return f.hasRoomLocked(0)
	}
	return true
}

// release says that the Source holds nothing more back: it was handed over, or thrown away.
func (f *feed) release() { f.coming.Release(f.v.usage) }

// fitsLocked says whether the view may change by so much, and ends the watch if not.
func (f *feed) fitsLocked(objects, bytes int64) bool {
	for _, x := range [...]struct {
		l *memory.Load
		m bounds.Limits
	}{{&f.v.held, f.e.o.View}, {&f.v.usage.Held, f.e.o.Peer}} {
		if objects > 0 && x.l.Objects.Load()+objects > x.m.Objects || bytes > 0 && x.l.Bytes.Load()+bytes > x.m.Bytes {
			f.abort(f.e.o.TooMuch())
			return false
		}
	}
	more := memory.Weight(objects, bytes)
	return more <= 0 || f.hasRoomLocked(more)
}

// hasRoomLocked says whether so much more may be held beside what all peers have, and ends the watch if not. A peer within its share
// has others give way.
func (f *feed) hasRoomLocked(more int64) bool {
	for c := f.v.usage; !c.Fits(more); {
		if id := c.GivesWay(more); id == "" || !f.e.giveWayLocked(id) {
			f.abort(f.e.o.TooMuchInAll())
			return false
		}
	}
	return true
}

// giveWayLocked has a peer give up the view that takes most. It is as one that was never listed: its copies stay as they are.
func (e *Engine) giveWayLocked(id string) bool {
	var most *view
	for _, v := range e.views.byPeer[id] {
		if v.weight() > 0 && (most == nil || v.weight() > most.weight()) {
			most = v
		}
	}
	if most == nil {
		return false
	}
	if f := most.feed; f != nil {
		f.abort(f.e.o.TooMuchInAll())
		f.release()
		e.doubtLocked(most)
		most.live, most.err = false, e.o.TooMuchInAll()
	}
	e.enqueueViewLocked(most, inforce.Everything)
	for at := range most.entries {
		e.dropEntryLocked(most, at)
	}
	e.countDueLocked()
	e.kindDirtyLocked(most.scope.GVK.GroupKind())
	return true
}

// weight is what the view takes, with what was collected for it.
func (v *view) weight() int64 {
	if v.feed == nil {
		return v.held.Weight()
	}
	return v.held.Weight() + v.feed.coming.Extra()
}

// abort ends the attempt to watch. What is known stays known, and is not live.
func (f *feed) abort(err error) {
	if a := f.attempt.Load(); a != nil && a.aborted.CompareAndSwap(nil, &err) {
		a.stop()
	}
}

// aborted says that the last attempt was ended so.
func (f *feed) aborted() bool {
	a := f.attempt.Load()
	return a != nil && a.aborted.Load() != nil
}

// watchView keeps the watch of a view going until ctx ends. One that brings too much is ended, and tried again
// after a long time.
func (e *Engine) watchView(ctx context.Context, f *feed) {
	defer f.release()
	wait := tooMuchRetry
	for ctx.Err() == nil {
		began := time.Now()
		trying, stop := context.WithCancel(ctx)
		a := &attempt{stop: stop}
		f.attempt.Store(a) // at once with what it begins with: from here on others may abort it
		e.watch(trying, f.source, f.v.scope.WithoutCopies(), f.keep, f)
		stop()
		why := a.aborted.Load()
		if ctx.Err() != nil || why == nil {
			return
		}
		f.release()
		e.o.Log.Warn("a view is too large", "cluster", f.v.peer, "kind", f.v.scope.GVK.Kind, "namespace", f.v.scope.Namespace)
		f.Health(*why)
		if time.Since(began) > tooMuchRetryCap {
			wait = tooMuchRetry
		}
		wake.After(ctx, wait, nil)
		wait = min(2*wait, tooMuchRetryCap)
	}
}
