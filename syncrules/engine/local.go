// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// unseenFor is how long an answer to a write is believed although the list of copies does not have it.
const unseenFor = 10 * time.Second

// locals is the copies here, and their watches.
type locals struct {
	copies   *copies.Index
	watches  map[Scope]*localWatch
	early    map[Key]earlyEvent // of the keys that are being worked on
	draining bool               // some watches are kept only for copies that are yet to be decided on
}

// newLocals has the watches of an earlier run.
func newLocals(scopes []Scope, stock *quota.Stock, authors func(rules []string) []string) locals {
	out := locals{copies: copies.NewIndex(stock, authors), watches: map[Scope]*localWatch{}, early: map[Key]earlyEvent{}}
	for _, s := range scopes {
		out.watches[s] = &localWatch{scope: s, earlier: true}
	}
	return out
}

// localWatch is the watch of the copies in one local scope. Engine.mu guards it.
type localWatch struct {
	scope   Scope
	earlier bool // it is of an earlier run, which may have made copies
	// complete says that it has delivered a list at least once. It need not be live: a write that is
	// decided on by an old state fails, and changes nothing.
	complete bool
	err      error
	feed     *copyFeed
}

// localCompleteLocked says that all copies of a place are known.
func (e *Engine) localCompleteLocked(kind schema.GroupKind, namespace string) bool {
	for _, w := range e.local.watches {
		if w.complete && w.scope.GVK.GroupKind() == kind && w.scope.Covers(namespace) {
			return true
		}
	}
	return false
}

// copyFeed is the Sink of a localWatch.
type copyFeed struct {
	e    *Engine
	w    *localWatch
	stop func()
}

func (f *copyFeed) kind() schema.GroupKind { return f.w.scope.GVK.GroupKind() }

// Replace implements Sink.
func (f *copyFeed) Replace(objs []*unstructured.Unstructured, version string) {
	list := make(map[types.NamespacedName]*copies.Copy, len(objs))
	for _, obj := range objs {
		if c := copies.New(obj); c != nil {
			list[place.NameOf(obj)] = c
		}
	}
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	if f.w.feed != f {
		return
	}
	for k, told := range f.e.local.early {
		switch {
		case k.GroupKind != f.kind() || !f.w.scope.Covers(k.Namespace):
		case list[k.NamespacedName()] == nil: // when it was made
			f.e.local.early[k] = earlyEvent{feed: f, version: version}
		case told.feed == f: // the list is newer
			f.e.local.early[k] = earlyEvent{}
		}
	}
	for at, old := range f.e.local.copies.All(f.kind()) {
		if list[at] != nil || !f.w.scope.Covers(at.Namespace) {
			continue
		}
		k := place.At(f.kind(), at)
		if age := time.Since(old.Unseen); age < unseenFor && !copies.Newer(version, old.Version) {
			f.e.queue.EnqueueAfter(k, unseenFor-age) // written after the list was made: the watch will tell of it
			continue
		}
		f.e.dropCopyLocked(k)
		f.e.queue.EnqueueLocked(k)
	}
	for at, c := range list {
		k := place.At(f.kind(), at)
		old := f.e.local.copies.At(k)
		if old != nil && !old.Unseen.IsZero() && !copies.Newer(c.Version, old.Version) {
			continue
		}
		if old == nil || old.Version != c.Version {
			f.e.queue.EnqueueLocked(k)
		}
		f.e.putCopyLocked(k, c)
	}
	if !f.w.complete {
		f.w.complete = true
		f.e.judgeKindLocked(f.kind())
		f.e.enqueueKindLocked(f.kind(), inforce.Everything)
		f.e.superviseSoon() // a scope that no rule wants any more may be closed now
	}
}

// Upsert implements Sink.
func (f *copyFeed) Upsert(obj *unstructured.Unstructured) {
	k := place.KeyOf(f.kind(), obj)
	if f.isEcho(k, obj) {
		return
	}
	c := copies.New(obj)
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	f.takeLocked(k, c)
}

// takeLocked takes in what the watch told, nil for nothing.
func (f *copyFeed) takeLocked(k Key, c *copies.Copy) {
	if f.w.feed != f || c == nil {
		return
	}
	if old := f.e.local.copies.At(k); old != nil && !old.Unseen.IsZero() && !copies.Newer(c.Version, old.Version) {
		return
	}
	f.e.putCopyLocked(k, c)
	f.e.queue.EnqueueLocked(k)
}

// isEcho says that the watch tells of a write of our own whose answer was taken in already, or of one whose answer may
// be on its way, which is for takeEarly to find out: most of what it tells.
func (f *copyFeed) isEcho(k Key, obj *unstructured.Unstructured) bool {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	version := obj.GetResourceVersion()
	return f.keepEarlyLocked(k, earlyEvent{feed: f, obj: obj, version: version}) || f.echoesLocked(k, version)
}

func (f *copyFeed) echoesLocked(k Key, version string) bool {
	old := f.e.local.copies.At(k)
	if f.w.feed != f || old == nil || old.Unseen.IsZero() || old.Version != version {
		return false
	}
	old.Unseen = time.Time{}
	return true
}

// early is what the watch told last of a copy that is being worked on; without a feed, nothing yet. All that it tells
// waits for the end of the work, so that the order of events stays what it is.
type earlyEvent struct {
	feed    *copyFeed
	obj     *unstructured.Unstructured // nil: it was deleted
	version string                     // of it or of its deletion, "" where that is not known
}

// keepEarlyLocked keeps what the watch tells of a key that is being worked on.
func (f *copyFeed) keepEarlyLocked(k Key, told earlyEvent) bool {
	before, working := f.e.local.early[k]
	if !working || f.w.feed != f {
		return false
	}
	if before.feed == nil || before.feed == f || before.feed.w.feed != before.feed || copies.Newer(told.version, before.version) {
		f.e.local.early[k] = told // or else a watch of another scope is ahead
	}
	return true
}

// takeEarlyLocked takes in what the watch told of a key during the work on it, now that the answer to a write is known.
func (e *Engine) takeEarlyLocked(k Key) {
	told := e.local.early[k]
	delete(e.local.early, k)
	switch {
	case told.feed == nil:
	case told.obj == nil:
		told.feed.dropLocked(k, told.version)
	case !told.feed.echoesLocked(k, told.version):
		told.feed.takeLocked(k, copies.New(told.obj))
	}
}

// Delete implements Sink. The object may also merely have lost its owner label.
func (f *copyFeed) Delete(namespace, name string, last *unstructured.Unstructured) {
	k, version := Key{GroupKind: f.kind(), Namespace: namespace, Name: name}, ""
	if last != nil {
		version = last.GetResourceVersion()
	}
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	if !f.keepEarlyLocked(k, earlyEvent{feed: f, version: version}) {
		f.dropLocked(k, version)
	}
}

// dropLocked takes in a deletion, in a version or "".
func (f *copyFeed) dropLocked(k Key, version string) {
	old := f.e.local.copies.At(k)
	if f.w.feed != f || old == nil {
		return
	}
	if version != "" && !old.Unseen.IsZero() && !copies.Newer(version, old.Version) {
		return // a deletion from before our write
	}
	f.e.dropCopyLocked(k)
	f.e.queue.EnqueueLocked(k)
}

// Health implements Sink.
func (f *copyFeed) Health(err error) {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	w := f.w
	if w.feed != f {
		return
	}
	if err == nil {
		if w.err != nil && f.e.errors().Class(w.err) == problem.KindUnknown {
			f.e.unlearnLocked(w.scope.GVK)
		}
		f.e.retryFailedLocked(f.kind())
	}
	w.err = err
	f.e.kindDirtyLocked(f.kind())
}
