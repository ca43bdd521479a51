// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/kube/history"
)

// minLiveTime is for how long a watch must have been healthy for the back-off to start anew when it ends.
const minLiveTime = 10 * time.Second

// feed is the reflector's store. It holds no objects: it forwards them to the sink, and keeps the names
// of those that the sink has. Its methods run on the goroutine of Watch, except filter.
type feed struct {
	options WatchOptions
	sink    Sink

	positions *history.Positions

	reflector *cache.Reflector
	// stream is the last watch that the reflector read a list from. It leaves it open when Replace fails.
	stream watch.Interface

	// closeMu is read-locked while filter runs, so that close waits for it. It guards closed.
	closeMu sync.RWMutex
	closed  bool

	// mu guards resource, scopeChanged, kept, streaming, asked and newest.
	mu       sync.Mutex
	resource resource
	// scopeChanged says that an object was in a namespace and should not be, or the other way around: the
	// CRD was replaced by one of another scope. end stops the reflector then.
	scopeChanged bool
	end          func()
	// kept are the objects that the sink has: they exist and match, as far as it knows.
	kept map[types.NamespacedName]struct{}
	// streaming says that the list being read is the beginning of a watch (WatchList), which stays open.
	streaming bool
	// asked is the position when the list that is being read was requested, and incarnation is that of
	// the list that the watch continues.
	asked       history.Position
	incarnation int
	// newest is the newest object in the list that is being read.
	newest history.SeenObject
	// refused says that Replace refused a list; the reflector does not return its error.
	refused bool

	healthy      bool
	healthySince time.Time
	downAt       time.Time // when the API server was last unreachable
	reported     string    // the last error reported, "" when none
}

func newFeed(o WatchOptions, s Sink, p *history.Positions) *feed {
	return &feed{options: o, sink: s, positions: p, kept: map[types.NamespacedName]struct{}{}}
}

// verdict says what to do with an object.
type verdict int

const (
	dropped  verdict = iota // the sink does not have it and does not want it
	unwanted                // the sink has it, and Keep refuses it now
	wanted
)

// judge trims an object to what the sink gets, and says what to do with it. An object that the API
// server should not have sent, such as one of another namespace, is dropped.
func (f *feed) judge(obj *unstructured.Unstructured) (types.NamespacedName, verdict) {
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	f.mu.Lock()
	namespaced := f.resource.namespaced
	f.scopeChanged = f.scopeChanged || namespaced != (key.Namespace != "")
	_, known := f.kept[key]
	f.mu.Unlock()
	if key.Name == "" || obj.GroupVersionKind() != f.options.GVK || namespaced != (key.Namespace != "") ||
		(namespaced && f.options.Namespace != "" && key.Namespace != f.options.Namespace) {
		return key, dropped
	}
	if f.options.trim != nil {
		f.options.trim(obj)
	}
	obj.SetManagedFields(nil)
	switch {
	case f.options.Keep == nil || f.options.Keep(obj):
		return key, wanted
	case known:
		return key, unwanted
	}
	return key, dropped
}

// filter is judge for the objects of a list, before the reflector gets them. It is called on other
// goroutines, and does not call Keep any more when Watch has returned.
func (f *feed) filter(obj *unstructured.Unstructured) verdict {
	f.closeMu.RLock()
	defer f.closeMu.RUnlock()
	if f.closed {
		return dropped
	}
	_, result := f.judge(obj)
	f.mu.Lock()
	f.newest = f.newest.Newer(history.ObjectOf(obj))
	f.mu.Unlock()
	return result
}

func (f *feed) close() {
	f.closeMu.Lock()
	f.closed = true
	f.closeMu.Unlock()
}

func (f *feed) setResource(res resource) {
	f.mu.Lock()
	f.resource, f.scopeChanged = res, false
	f.mu.Unlock()
}

func (f *feed) isScopeChanged() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scopeChanged
}

// beginList is called before a list is requested.
func (f *feed) beginList(streaming bool) {
	f.mu.Lock()
	f.streaming, f.asked, f.newest = streaming, f.positions.At(f.options.GVK), history.SeenObject{}
	f.mu.Unlock()
}

// Replace implements cache.ReflectorStore. The list went through filter: an object that Keep refuses is
// in it only where the sink has it.
func (f *feed) Replace(list []any, resourceVersion string) error {
	f.mu.Lock()
	before, streaming, asked, newest, scopeChanged := f.kept, f.streaming, f.asked, f.newest, f.scopeChanged
	f.mu.Unlock()
	if scopeChanged {
		return ErrKindUnknown
	}
	at, ok := f.positions.AcceptList(f.options.GVK, asked, f.options.Namespace, resourceVersion, newest)
	if !ok {
		f.refused = true
		return ErrRestored
	}
	f.incarnation = at.Incarnation
	objs := make([]*unstructured.Unstructured, 0, len(list))
	kept := make(map[types.NamespacedName]struct{}, len(list))
	refused := map[types.NamespacedName]struct{}{}
	for _, item := range list {
		obj, ok := item.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		objs = append(objs, obj)
		key := history.ObjectOf(obj).Key
		if _, known := before[key]; !known || f.options.Keep == nil || f.options.Keep(obj) {
			kept[key] = struct{}{}
		} else {
			refused[key] = struct{}{}
		}
	}
	for key := range before {
		_, there := kept[key]
		if _, matched := refused[key]; !there && !matched {
			f.missed(history.SeenObject{Key: key, ResourceVersion: resourceVersion})
			break // one is enough to notice a restore
		}
	}
	f.mu.Lock()
	f.kept = kept
	f.mu.Unlock()
	f.sink.Replace(objs, resourceVersion)
	if streaming {
		f.setHealthy()
	}
	return nil
}

// Add implements cache.ReflectorStore.
func (f *feed) Add(item any) error { return f.Update(item) }

// Update implements cache.ReflectorStore.
func (f *feed) Update(item any) error {
	obj, ok := item.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	f.positions.Saw(f.options.GVK, f.incarnation, f.options.Namespace, history.ObjectOf(obj))
	key, result := f.judge(obj)
	if f.isScopeChanged() {
		f.end()
		return nil
	}
	if result == dropped {
		return nil
	}
	f.mu.Lock()
	if result == wanted {
		f.kept[key] = struct{}{}
	} else {
		delete(f.kept, key)
	}
	f.mu.Unlock()
	f.sink.Upsert(obj)
	return nil
}

// Delete implements cache.ReflectorStore.
func (f *feed) Delete(item any) error {
	obj, ok := item.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	f.missed(history.ObjectOf(obj))
	f.mu.Lock()
	_, known := f.kept[key]
	delete(f.kept, key)
	f.mu.Unlock()
	if known {
		obj.SetManagedFields(nil)
		f.sink.Delete(key.Namespace, key.Name, obj)
	}
	return nil
}

// UpdateResourceVersion implements cache.ResourceVersionUpdater: it is called with the version of
// every event, and of bookmarks.
func (f *feed) UpdateResourceVersion(version string) {
	f.positions.Advance(f.options.GVK, f.incarnation, version)
}

// missed notes, for a later comparison, that an object is absent or does not match.
func (f *feed) missed(o history.SeenObject) {
	absent := history.AbsentObject{SeenObject: o, LabelSelector: f.options.LabelSelector, FieldSelector: f.options.FieldSelector}
	f.positions.Missed(f.options.GVK, f.incarnation, f.options.Namespace, absent)
}

// Resync implements cache.ReflectorStore; no resync period is set.
func (f *feed) Resync() error { return nil }

func (f *feed) setHealthy() {
	if f.healthy {
		return
	}
	f.healthy, f.reported, f.healthySince = true, "", time.Now()
	f.sink.Health(nil)
}

// setUnhealthy reports an error, unless it is the one that was reported last. It returns whether the
// watch was healthy for minLiveTime until now.
func (f *feed) setUnhealthy(err error) (wasLive bool) {
	err = classify(err)
	if errors.Is(err, ErrUnreachable) {
		f.downAt = time.Now()
	}
	wasLive = f.healthy && time.Since(f.healthySince) > minLiveTime
	if f.healthy || f.reported != err.Error() {
		f.healthy, f.reported = false, err.Error()
		f.sink.Health(err)
	}
	return wasLive
}
