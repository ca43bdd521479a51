// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// server is an API server in memory: a Source and a Target. It behaves as the engine must expect it to: it
// gives versions and uids, checks preconditions, knows namespaces, and delivers events to each watch in order
// from a goroutine of its own.
type server struct {
	mu         sync.Mutex
	version    int
	objects    map[Key]*unstructured.Unstructured
	namespaces map[string]bool
	watches    map[*serverWatch]struct{}
	down       error
	slow       time.Duration // before a watch says anything
	late       time.Duration // between a write and its answer
	lateKinds  map[string]time.Duration
	requests   map[string]int  // by verb
	statuses   map[string]bool // kinds whose status is a subresource
	admit      func(obj *unstructured.Unstructured) error
	unserved   map[string]bool // kinds that do not exist
	closed     map[string]bool // namespaces in which nothing may be watched
}

type serverWatch struct {
	scope Scope
	keep  func(*unstructured.Unstructured) bool
	sink  Sink
	calls []func()      // that it has to make
	more  chan struct{} // there are some
	kept  map[Key]bool
	live  bool
}

func newServer(namespaces ...string) *server {
	s := &server{
		objects: map[Key]*unstructured.Unstructured{}, namespaces: map[string]bool{}, version: 100,
		watches: map[*serverWatch]struct{}{}, requests: map[string]int{},
	}
	for _, n := range namespaces {
		s.addNamespace(n)
	}
	return s
}

func (s *server) addNamespace(name string) {
	s.put(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}})
}

// --- for tests

func serverKey(obj *unstructured.Unstructured) Key {
	return place.KeyOf(obj.GroupVersionKind().GroupKind(), obj)
}

// put creates or replaces an object as a user would.
func (s *server) put(obj *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(obj.DeepCopy())
}

func (s *server) store(obj *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	k := serverKey(obj)
	if old := s.objects[k]; old != nil {
		obj.SetUID(old.GetUID())
	} else {
		obj.SetUID(types.UID("uid-" + strconv.Itoa(s.version)))
	}
	obj.SetResourceVersion(strconv.Itoa(s.version))
	if k.Kind == "Namespace" {
		s.namespaces[k.Name] = true
	}
	s.objects[k] = obj
	for w := range s.watches {
		w.tell(s, k, obj)
	}
	return obj.DeepCopy()
}

func (s *server) remove(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(k)
}

func (s *server) drop(k Key) {
	old := s.objects[k]
	if old == nil {
		return
	}
	s.version++
	delete(s.objects, k)
	if k.Kind == "Namespace" {
		delete(s.namespaces, k.Name)
	}
	last := old.DeepCopy()
	last.SetResourceVersion(strconv.Itoa(s.version))
	for w := range s.watches {
		w.tellGone(k, last)
	}
}

func (s *server) find(k Key) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj := s.objects[k]; obj != nil {
		return obj.DeepCopy()
	}
	return nil
}

func (s *server) edit(k Key, change func(*unstructured.Unstructured)) {
	obj := s.find(k)
	change(obj)
	s.put(obj)
}

func (s *server) count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[verb]
}

func (s *server) writes() int {
	return s.count("create") + s.count("update") + s.count("delete")
}

func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// cut makes requests fail and watches end with err; nil ends that, and every watch lists again.
func (s *server) cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
	for w := range s.watches {
		if err != nil {
			w.live = false
			w.later(func() { w.sink.Health(err) })
		} else if !s.closed[w.scope.Namespace] {
			w.list(s)
		}
	}
}

// openNamespace lets a namespace be watched that is in closed.
func (s *server) openNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.closed, name)
	for w := range s.watches {
		if w.scope.Namespace == name {
			w.list(s)
		}
	}
}

// serve makes a kind exist, as its CRD does.
func (s *server) serve(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unserved, kind)
	for w := range s.watches {
		if w.scope.GVK.Kind == kind {
			w.list(s)
		}
	}
}

func (s *server) Watch(ctx context.Context, scope Scope, keep func(*unstructured.Unstructured) bool, sink Sink) error {
	w := &serverWatch{scope: scope, keep: keep, sink: sink, more: make(chan struct{}, 1), kept: map[Key]bool{}}
	time.Sleep(s.slow)
	s.mu.Lock()
	s.watches[w] = struct{}{}
	s.requests["watch"]++
	switch err := s.down; {
	case err != nil:
		w.later(func() { sink.Health(err) })
	case s.closed[scope.Namespace]:
		w.later(func() { sink.Health(ErrForbidden) })
	case s.unserved[scope.GVK.Kind]:
		w.later(func() { sink.Health(ErrKindUnknown) })
	default:
		w.list(s)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watches, w)
		s.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.more:
		}
		s.mu.Lock()
		calls := w.calls
		w.calls = nil
		s.mu.Unlock()
		for _, call := range calls {
			if ctx.Err() != nil {
				break
			}
			call()
		}
	}
}

// later has the watch call the sink, after the calls that it still has to make. The server's lock is held.
func (w *serverWatch) later(call func()) {
	w.calls = append(w.calls, call)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *serverWatch) selects(obj *unstructured.Unstructured) bool {
	if obj.GroupVersionKind() != w.scope.GVK || !w.scope.Covers(obj.GetNamespace()) {
		return false
	}
	if name, ok := strings.CutPrefix(w.scope.FieldSelector, "metadata.name="); ok && name != obj.GetName() {
		return false
	}
	sel, err := labels.Parse(w.scope.LabelSelector)
	return err == nil && sel.Matches(labels.Set(obj.GetLabels()))
}

// list delivers what there is. Like kube.Client, it hands on once what was kept before and is refused now.
func (w *serverWatch) list(s *server) {
	var objs []*unstructured.Unstructured
	kept := map[Key]bool{}
	for k, obj := range s.objects {
		if !w.selects(obj) {
			continue
		}
		if wanted := w.keep == nil || w.keep(obj); wanted {
			kept[k] = true
		} else if !w.kept[k] {
			continue
		}
		objs = append(objs, obj.DeepCopy())
	}
	w.kept, w.live = kept, true
	version := strconv.Itoa(s.version)
	w.later(func() {
		w.sink.Replace(objs, version)
		w.sink.Health(nil)
	})
}

func (w *serverWatch) tell(_ *server, k Key, obj *unstructured.Unstructured) {
	if !w.live {
		return
	}
	if !w.selects(obj) {
		w.tellGone(k, obj)
		return
	}
	wanted := w.keep == nil || w.keep(obj)
	if !wanted && !w.kept[k] {
		return
	}
	if wanted {
		w.kept[k] = true
	} else {
		delete(w.kept, k)
	}
	handed := obj.DeepCopy()
	w.later(func() { w.sink.Upsert(handed) })
}

func (w *serverWatch) tellGone(k Key, last *unstructured.Unstructured) {
	if !w.live || !w.kept[k] {
		return
	}
	delete(w.kept, k)
	handed := last.DeepCopy()
	w.later(func() { w.sink.Delete(k.Namespace, k.Name, handed) })
}
