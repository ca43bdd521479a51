// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// ErrTooMuch is returned when a cluster has more for the rules than Options.View or Options.Peer allow.
var ErrTooMuch = errors.New("more than may be held")

// Limits bound what is held of other clusters. Zero fields mean the defaults.
type Limits struct {
	Objects int64
	Bytes   int64 // as CBOR
}

const (
	// DefaultObjects and DefaultBytes bound one view; one peer may have twice as much in all. Where the
	// process has a memory limit (GOMEMLIMIT), one view gets an eighth of it at most.
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
	o.View = o.View.or(DefaultObjects, min(DefaultBytes, debug.SetMemoryLimit(-1)/8))
	o.Peer = o.Peer.or(2*o.View.Objects, 2*o.View.Bytes)
}

// load is how much there is of something.
type load struct{ objects, bytes atomic.Int64 }

func (l *load) add(objects, bytes int64) {
	l.objects.Add(objects)
	l.bytes.Add(bytes)
}

func (l *load) exceeds(m Limits) bool {
	return l.objects.Load() > m.Objects || l.bytes.Load() > m.Bytes
}

// usage is what one peer has made us hold in views, and what lists on their way hold.
type usage struct{ held, coming load }

// coming is what a Source has collected and not handed over yet, each object once: lists are begun anew, and what
// was handed over before is looked at twice.
type coming struct {
	mu    sync.Mutex
	sizes map[types.NamespacedName]int64
	last  arrival
	load
}

// arrival is an object that the Source was told to keep.
type arrival struct {
	name    types.NamespacedName
	version string // resourceVersion
	first   int    // of the rules that select it
}

// firstOf is the first rule that selects the object, which is known if the Source asked about this one last.
func (c *coming) firstOf(obj *unstructured.Unstructured) (first int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = c.last.version != "" && c.last.version == obj.GetResourceVersion() && c.last.name == place.NameOf(obj)
	return c.last.first, known
}

// refuse says that the object that the Source asked about last is not one to keep.
func (c *coming) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = arrival{}
}

// admit counts an object that the Source is about to collect. A Source hands over a list when it is complete:
// one without end would otherwise fill the memory before anybody here saw it. It is called from any goroutine.
func (f *feed) admit(obj *unstructured.Unstructured, first int) bool {
	if f.aborted.Load() {
		return false
	}
	at, size, c := place.NameOf(obj), packed.SizeOf(obj.Object), &f.coming
	c.mu.Lock()
	old, known := c.sizes[at]
	if c.sizes == nil {
		c.sizes = map[types.NamespacedName]int64{}
	}
	c.sizes[at], c.last = size, arrival{at, obj.GetResourceVersion(), first}
	objects := int64(1)
	if known {
		objects = 0
	}
	c.add(objects, size-old)
	f.v.usage.coming.add(objects, size-old)
	c.mu.Unlock()
	if c.exceeds(f.e.o.View) || f.v.usage.coming.exceeds(f.e.o.Peer) {
		f.abort()
		return false
	}
	return true
}

// release says that the Source holds nothing more back: it was handed over, or thrown away.
func (f *feed) release() {
	c := &f.coming
	c.mu.Lock()
	defer c.mu.Unlock()
	objects, bytes := c.objects.Load(), c.bytes.Load()
	c.add(-objects, -bytes)
	f.v.usage.coming.add(-objects, -bytes)
	c.sizes, c.last = nil, arrival{}
}

// fitsLocked says whether the view may change by so much, and ends the watch if not.
func (f *feed) fitsLocked(objects, bytes int64) bool {
	for _, x := range [...]struct {
		l *load
		m Limits
	}{{&f.v.held, f.e.o.View}, {&f.v.usage.held, f.e.o.Peer}} {
		if objects > 0 && x.l.objects.Load()+objects > x.m.Objects || bytes > 0 && x.l.bytes.Load()+bytes > x.m.Bytes {
			f.abort()
			return false
		}
	}
	return true
}

// abort ends the attempt to watch. What is known stays known, and is not live.
func (f *feed) abort() {
	if stop := f.attempt.Load(); stop != nil && f.aborted.CompareAndSwap(false, true) {
		(*stop)()
	}
}

// watchView keeps the watch of a view going until ctx ends. One that brings too much is ended, and tried again
// after a long time.
func (e *Engine) watchView(ctx context.Context, f *feed) {
	defer f.release()
	wait := tooMuchRetry
	for ctx.Err() == nil {
		began := time.Now()
		attempt, stop := context.WithCancel(ctx)
		f.attempt.Store(&stop)
		f.aborted.Store(false)
		e.watch(attempt, f.source, f.v.scope.WithoutCopies(), f.keep, f)
		stop()
		if ctx.Err() != nil {
			return
		}
		f.release()
		e.o.Log.Warn("a view is too large", "cluster", f.v.peer, "kind", f.v.scope.GVK.Kind, "namespace", f.v.scope.Namespace)
		f.Health(fmt.Errorf("%w: at most %d objects and %d MiB for one watch, %d and %d MiB for one cluster", ErrTooMuch,
			e.o.View.Objects, e.o.View.Bytes>>20, e.o.Peer.Objects, e.o.Peer.Bytes>>20))
		if time.Since(began) > tooMuchRetryCap {
			wait = tooMuchRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, tooMuchRetryCap)
	}
}
