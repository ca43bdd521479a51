// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	slow       time.Duration   // before a watch says anything
	late       time.Duration   // between a write and its answer
	requests   map[string]int  // by verb
	statuses   map[string]bool // kinds whose status is a subresource
	admit      func(obj *unstructured.Unstructured) error
	unserved   map[string]bool // kinds that do not exist
	closed     map[string]bool // namespaces in which nothing may be watched
}

type serverWatch struct {
	scope  Scope
	keep   func(*unstructured.Unstructured) bool
	sink   Sink
	events chan func()
	kept   map[Key]bool
	live   bool
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
	return keyOf(obj.GroupVersionKind().GroupKind(), obj)
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

// cut makes requests fail and watches end with err; nil mends it, and every watch lists again.
func (s *server) cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
	for w := range s.watches {
		if err != nil {
			w.live = false
			w.events <- func() { w.sink.Health(err) }
		} else {
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

// --- Source

func (s *server) Watch(ctx context.Context, scope Scope, keep func(*unstructured.Unstructured) bool, sink Sink) error {
	w := &serverWatch{scope: scope, keep: keep, sink: sink, events: make(chan func(), 100_000), kept: map[Key]bool{}}
	time.Sleep(s.slow)
	s.mu.Lock()
	s.watches[w] = struct{}{}
	s.requests["watch"]++
	switch err := s.down; {
	case err != nil:
		w.events <- func() { sink.Health(err) }
	case s.closed[scope.Namespace]:
		w.events <- func() { sink.Health(ErrForbidden) }
	case s.unserved[scope.GVK.Kind]:
		w.events <- func() { sink.Health(ErrKindUnknown) }
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
		case f := <-w.events:
			f()
		}
	}
}

func (w *serverWatch) selects(obj *unstructured.Unstructured) bool {
	if obj.GroupVersionKind() != w.scope.GVK || !w.scope.covers(obj.GetNamespace()) {
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
	w.events <- func() {
		w.sink.Replace(objs, version)
		w.sink.Health(nil)
	}
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
	w.events <- func() { w.sink.Upsert(handed) }
}

func (w *serverWatch) tellGone(k Key, last *unstructured.Unstructured) {
	if !w.live || !w.kept[k] {
		return
	}
	delete(w.kept, k)
	handed := last.DeepCopy()
	w.events <- func() { w.sink.Delete(k.Namespace, k.Name, handed) }
}

// --- Target

func (s *server) request(verb string) error {
	s.requests[verb]++
	return s.down
}

func resource(k Key) schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
}

func (s *server) Create(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	defer func() { time.Sleep(s.late) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("create"); err != nil {
		return nil, err
	}
	k := serverKey(obj)
	if s.unserved[k.Kind] {
		return nil, ErrKindUnknown
	}
	if k.Namespace != "" && !s.namespaces[k.Namespace] {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, k.Namespace)
	}
	if s.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(resource(k), k.Name)
	}
	return s.accept(obj)
}

func (s *server) accept(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	if s.admit != nil {
		if err := s.admit(obj); err != nil {
			return nil, err
		}
	}
	if s.statuses[obj.GetKind()] {
		delete(obj.Object, "status")
		if old := s.objects[serverKey(obj)]; old != nil && old.Object["status"] != nil {
			obj.Object["status"] = old.DeepCopy().Object["status"]
		}
	}
	return s.store(obj), nil
}

func (s *server) current(obj *unstructured.Unstructured) error {
	k := serverKey(obj)
	old := s.objects[k]
	if old == nil {
		return apierrors.NewNotFound(resource(k), k.Name)
	}
	if obj.GetUID() != old.GetUID() || obj.GetResourceVersion() != old.GetResourceVersion() {
		return apierrors.NewConflict(resource(k), k.Name, fmt.Errorf("it has version %s", old.GetResourceVersion()))
	}
	return nil
}

func (s *server) Update(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	defer func() { time.Sleep(s.late) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("update"); err != nil {
		return nil, err
	}
	if err := s.current(obj); err != nil {
		return nil, err
	}
	return s.accept(obj)
}

// UpdateStatus changes the status alone; Create and Update leave it out, of the kinds in statuses.
func (s *server) UpdateStatus(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("status"); err != nil {
		return nil, err
	}
	if err := s.current(obj); err != nil {
		return nil, err
	}
	now := s.objects[serverKey(obj)].DeepCopy()
	now.Object["status"] = obj.Object["status"]
	if s.admit != nil {
		if err := s.admit(now); err != nil {
			return nil, err
		}
	}
	return s.store(now), nil
}

func (s *server) Delete(_ context.Context, obj *unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("delete"); err != nil {
		return err
	}
	if err := s.current(obj); err != nil {
		return err
	}
	if old := s.objects[serverKey(obj)]; len(old.GetFinalizers()) > 0 {
		if going := old.DeepCopy(); going.GetDeletionTimestamp() == nil {
			now := metav1.Now()
			going.SetDeletionTimestamp(&now)
			s.store(going)
		}
		return nil
	}
	s.drop(serverKey(obj))
	return nil
}

func (s *server) Read(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("read"); err != nil {
		return nil, err
	}
	k := Key{gvk.GroupKind(), namespace, name}
	if obj := s.objects[k]; obj != nil {
		return obj.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource(k), name)
}

func errUnavailable() error {
	return apierrors.NewServiceUnavailable("it is down")
}

func errInvalid(k Key, value string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s is invalid: data[x]: Invalid value: %q", k, value),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: value, Field: "data[x]"}}},
	}}
}

func (s *server) names(kind string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, k := range slices.Collect(maps.Keys(s.objects)) {
		if k.Kind == kind {
			out = append(out, k.Name)
		}
	}
	slices.Sort(out)
	return out
}
