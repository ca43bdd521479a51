// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// ErrTooMuch is returned when a cluster has more for the rules than Options.View, Options.Peer or Options.All allow.
var ErrTooMuch = errors.New("more than may be held")

// Limits bound what is held of other clusters. Zero fields mean the defaults.
type Limits struct {
	Objects int64
	Bytes   int64 // as CBOR
}

const (
	// DefaultObjects and DefaultBytes bound one view; one peer may have twice as much in all, and all peers
	// together what four of them may have. Where the process has a memory limit (GOMEMLIMIT), one view gets an
	// eighth of it at most, and all together half of it.
	DefaultObjects = 100_000
	DefaultBytes   = 512 << 20
	// Back-off of a view that was too large.
	tooMuchRetry    = 5 * time.Minute
	tooMuchRetryCap = time.Hour
)

func (l Limits) or(objects, bytes int64) Limits {
	return Limits{Objects: cmp.Or(l.Objects, objects), Bytes: cmp.Or(l.Bytes, bytes)}
}

func (o *Options) defaultLimits() {
	limit := debug.SetMemoryLimit(-1)
	o.View = o.View.or(DefaultObjects, min(DefaultBytes, limit/8))
	o.Peer = o.Peer.or(2*o.View.Objects, 2*o.View.Bytes)
	all := 4 * o.Peer.Bytes
	if limit != math.MaxInt64 { // there is one
		all = limit / 2
	}
	o.All = cmp.Or(o.All, all)
}

func exceeds(l *memory.Load, m Limits) bool { return l.Exceeds(m.Objects, m.Bytes) }

// admit counts an object that the Source is about to collect. A Source hands over a list when it is complete:
// one without end would otherwise fill the memory before anybody here saw it. It is called from any goroutine.
func (f *feed) admit(obj *unstructured.Unstructured, first int) bool {
	if f.aborted() {
		return false
	}
	c, of := &f.coming, f.v.usage
	grew := c.Collect(memory.Arrival{Name: place.NameOf(obj), Version: obj.GetResourceVersion(), First: first}, packed.SizeOf(obj.Object), of, &f.v.held)
	switch {
	case exceeds(&c.Load, f.e.o.View), exceeds(&of.Coming, f.e.o.Peer):
		f.abort(f.e.o.tooMuch())
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
		m Limits
	}{{&f.v.held, f.e.o.View}, {&f.v.usage.Held, f.e.o.Peer}} {
		if objects > 0 && x.l.Objects.Load()+objects > x.m.Objects || bytes > 0 && x.l.Bytes.Load()+bytes > x.m.Bytes {
			f.abort(f.e.o.tooMuch())
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
			f.abort(f.e.o.tooMuchInAll())
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
		f.abort(f.e.o.tooMuchInAll())
		f.release()
		e.doubtLocked(most)
		most.live, most.err = false, e.o.tooMuchInAll()
	}
	e.enqueueViewLocked(most)
	for at := range most.entries {
		e.dropEntryLocked(most, at)
	}
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

// tooMuch and tooMuchInAll say what was more than may be.
func (o *Options) tooMuch() error {
	return fmt.Errorf("%w: at most %d objects and %d MiB for one watch, %d and %d MiB for one cluster", ErrTooMuch,
		o.View.Objects, o.View.Bytes>>20, o.Peer.Objects, o.Peer.Bytes>>20)
}

func (o *Options) tooMuchInAll() error {
	return fmt.Errorf("%w: at most %d MiB of all clusters together, and this one has used up its share (clusters share by who admitted them). "+
		"If agentctl members --tree shows clusters beside or below it that nobody knows, remove the one that admitted them", ErrTooMuch, o.All>>20)
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
