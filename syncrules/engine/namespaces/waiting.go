// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// Engine is what is needed of it.
type Engine struct {
	Lock          sync.Locker
	SuperviseSoon func() // calls SuperviseLocked
	Log           *slog.Logger
	// RetryLocked puts a copy up for a decision, without waiting for its back-off, if it is not as it should be for a
	// reason, "" for any.
	RetryLocked func(k place.Key, reason string)
	// ChangedLocked is told that a rule does, or does not any more, select a namespace. StaleLocked is told that all about
	// a rule is to be looked at again; uncounted, that the copies which lack something are to be counted before that.
	ChangedLocked func(rule, namespace string)
	StaleLocked   func(rule string, uncounted bool)
	// GuardLive says that what is seen to happen proves nothing.
	GuardLive bool
}

// Watch watches the local API server, until stop is called.
type Watch func(scope place.Scope, sink place.Sink) (stop func())

// Namespaces is the namespaces that copies wait for, those that agents created for copies, and those that rules select.
type Namespaces struct {
	e        Engine
	waiting  map[string]map[place.Key]struct{}
	news     uint64
	watched  *namespaceWatch    // nil while nobody waits
	created  *createdNamespaces // nil while no rule may create any
	selected *selected
}

// New knows of no namespace.
func New(e Engine) *Namespaces {
	n := &Namespaces{e: e, waiting: map[string]map[place.Key]struct{}{}}
	n.selected = newSelected(n)
	return n
}

// Kind is the kind of namespaces.
func Kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
}

// NewsLocked counts what was told of namespaces: what is told while a copy is being worked on may be what the copy is about
// to wait for.
func (n *Namespaces) NewsLocked() uint64 { return n.news }

// SuperviseLocked makes the running watches be those that are needed; creates says that rules may create namespaces, selects
// that rules in force select some.
func (n *Namespaces) SuperviseLocked(watch Watch, creates, selects bool) {
	n.superviseSelectedLocked(watch, selects)
	n.superviseWaitingLocked(watch)
	n.superviseCreatedLocked(watch, creates)
}

// namespaceWatch is the Sink of the watch of namespaces, which runs while copies wait for some: to appear, or to
// be gone so that they can be created anew.
type namespaceWatch struct {
	n    *Namespaces
	stop func()
}

// superviseWaitingLocked watches namespaces while copies wait for some.
func (n *Namespaces) superviseWaitingLocked(watch Watch) {
	switch {
	case len(n.waiting) == 0 && n.watched != nil:
		n.watched.stop()
		n.watched = nil
	case len(n.waiting) > 0 && n.watched == nil:
		w := &namespaceWatch{n: n}
		n.watched = w
		w.stop = watch(place.Scope{GVK: Kind()}, w)
	}
}

// Replace implements Sink.
func (w *namespaceWatch) Replace(objs []*unstructured.Unstructured, _ string) {
	there := make(map[string]bool, len(objs))
	for _, obj := range objs {
		there[obj.GetName()] = true
		w.Upsert(obj)
	}
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	w.n.news++
	for name := range w.n.waiting {
		if !there[name] {
			w.n.goneLocked(name)
		}
	}
}

// Upsert implements Sink: it wakes the copies that wait for the namespace.
func (w *namespaceWatch) Upsert(obj *unstructured.Unstructured) {
	if obj.GetDeletionTimestamp() != nil {
		return
	}
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	w.n.news++
	for k := range w.n.waiting[obj.GetName()] {
		w.n.e.RetryLocked(k, "")
	}
}

// Delete implements Sink.
func (w *namespaceWatch) Delete(_, name string, _ *unstructured.Unstructured) {
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	w.n.news++
	w.n.goneLocked(name)
}

// Health implements Sink.
func (*namespaceWatch) Health(error) {}

// goneLocked wakes the copies that waited for the end of the namespace: their rules may create it again.
func (n *Namespaces) goneLocked(name string) {
	for k := range n.waiting[name] {
		n.e.RetryLocked(k, problem.ReasonNamespaceTerminating)
	}
}

// AwaitLocked says that a copy waits for its namespace, ThereLocked that it does not.
func (n *Namespaces) AwaitLocked(k place.Key) {
	waiters := n.waiting[k.Namespace]
	if waiters == nil {
		waiters = map[place.Key]struct{}{}
		n.waiting[k.Namespace] = waiters
		n.e.SuperviseSoon()
	}
	waiters[k] = struct{}{}
}

// ThereLocked is explained at AwaitLocked.
func (n *Namespaces) ThereLocked(k place.Key) {
	waiters := n.waiting[k.Namespace]
	if waiters == nil {
		return
	}
	delete(waiters, k)
	if len(waiters) == 0 {
		delete(n.waiting, k.Namespace)
		n.e.SuperviseSoon()
	}
}
