// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// namespaces is the namespaces that copies wait for, and those that agents created for copies.
type namespaces struct {
	wiring
	waiting map[string]map[Key]struct{}
	// news counts what was told of namespaces: what is told while a copy is being worked on may be what the copy is
	// about to wait for.
	news    uint64
	watched *namespaceWatch    // nil while nobody waits
	created *createdNamespaces // nil while no rule may create any
}

func newNamespaces(w wiring) namespaces {
	return namespaces{wiring: w, waiting: map[string]map[Key]struct{}{}}
}

// namespaceWatch is the Sink of the watch of namespaces, which runs while copies wait for some: to appear, or to
// be gone so that they can be created anew.
type namespaceWatch struct {
	n    *namespaces
	stop func()
}

// superviseLocked watches namespaces while copies wait for some.
func (n *namespaces) superviseLocked(start starter) {
	switch {
	case len(n.waiting) == 0 && n.watched != nil:
		n.watched.stop()
		n.watched = nil
	case len(n.waiting) > 0 && n.watched == nil:
		w := &namespaceWatch{n: n}
		n.watched = w
		scope := Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}}
		w.stop = n.watch(start, scope, nil, w)
	}
}

// Replace implements Sink.
func (w *namespaceWatch) Replace(objs []*unstructured.Unstructured, _ string) {
	there := make(map[string]bool, len(objs))
	for _, obj := range objs {
		there[obj.GetName()] = true
		w.Upsert(obj)
	}
	w.n.lock.Lock()
	defer w.n.lock.Unlock()
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
	w.n.lock.Lock()
	defer w.n.lock.Unlock()
	w.n.news++
	for k := range w.n.waiting[obj.GetName()] {
		w.n.retryLocked(k, "")
	}
}

// Delete implements Sink.
func (w *namespaceWatch) Delete(_, name string, _ *unstructured.Unstructured) {
	w.n.lock.Lock()
	defer w.n.lock.Unlock()
	w.n.news++
	w.n.goneLocked(name)
}

// Health implements Sink.
func (*namespaceWatch) Health(error) {}

// goneLocked wakes the copies that waited for the end of the namespace: their rules may create it again.
func (n *namespaces) goneLocked(name string) {
	for k := range n.waiting[name] {
		n.retryLocked(k, problem.ReasonNamespaceTerminating)
	}
}

// awaitLocked and thereLocked keep waiting.
func (n *namespaces) awaitLocked(k Key) {
	waiters := n.waiting[k.Namespace]
	if waiters == nil {
		waiters = map[Key]struct{}{}
		n.waiting[k.Namespace] = waiters
		n.superviseSoon()
	}
	waiters[k] = struct{}{}
}

func (n *namespaces) thereLocked(k Key) {
	waiters := n.waiting[k.Namespace]
	if waiters == nil {
		return
	}
	delete(waiters, k)
	if len(waiters) == 0 {
		delete(n.waiting, k.Namespace)
		n.superviseSoon()
	}
}
