// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// namespaces is the namespaces that copies wait for, and those that agents created for copies.
type namespaces struct {
	waiting map[string]map[Key]struct{}
	// news counts what was told of namespaces: what is told while a copy is being worked on may be what the copy is
	// about to wait for.
	news    uint64
	watch   *namespaceWatch    // nil while nobody waits
	created *createdNamespaces // nil while no rule may create any
}

func newNamespaces() namespaces { return namespaces{waiting: map[string]map[Key]struct{}{}} }

// namespaceWatch is the Sink of the watch of namespaces, which runs while copies wait for some: to appear, or to
// be gone so that they can be created anew.
type namespaceWatch struct {
	e    *Engine
	stop func()
}

// superviseNamespacesLocked watches namespaces while copies wait for some.
func (e *Engine) superviseNamespacesLocked(start starter) {
	switch {
	case len(e.namespaces.waiting) == 0 && e.namespaces.watch != nil:
		e.namespaces.watch.stop()
		e.namespaces.watch = nil
	case len(e.namespaces.waiting) > 0 && e.namespaces.watch == nil:
		w := &namespaceWatch{e: e}
		e.namespaces.watch = w
		scope := Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}}
		w.stop = start(func(ctx context.Context) { e.watch(ctx, e.o.Local, scope, nil, w) })
	}
}

// Replace implements Sink.
func (w *namespaceWatch) Replace(objs []*unstructured.Unstructured, _ string) {
	there := make(map[string]bool, len(objs))
	for _, obj := range objs {
		there[obj.GetName()] = true
		w.Upsert(obj)
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.e.namespaces.news++
	for name := range w.e.namespaces.waiting {
		if !there[name] {
			w.e.namespaceGoneLocked(name)
		}
	}
}

// Upsert implements Sink: it wakes the copies that wait for the namespace.
func (w *namespaceWatch) Upsert(obj *unstructured.Unstructured) {
	if obj.GetDeletionTimestamp() != nil {
		return
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.e.namespaces.news++
	for k := range w.e.namespaces.waiting[obj.GetName()] {
		w.e.outcomes.pacer.Succeeded(k)
		w.e.queue.enqueueLocked(k)
	}
}

// Delete implements Sink.
func (w *namespaceWatch) Delete(_, name string, _ *unstructured.Unstructured) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.e.namespaces.news++
	w.e.namespaceGoneLocked(name)
}

// Health implements Sink.
func (*namespaceWatch) Health(error) {}

// namespaceGoneLocked wakes the copies that waited for the end of the namespace: their rules may create it again.
func (e *Engine) namespaceGoneLocked(name string) {
	for k := range e.namespaces.waiting[name] {
		if r := e.outcomes.results[k]; r != nil && r.Reason == problem.ReasonNamespaceTerminating {
			e.outcomes.pacer.Succeeded(k)
			e.queue.enqueueLocked(k)
		}
	}
}

// awaitNamespaceLocked and namespaceThereLocked keep missing.
func (e *Engine) awaitNamespaceLocked(k Key) {
	waiters := e.namespaces.waiting[k.Namespace]
	if waiters == nil {
		waiters = map[Key]struct{}{}
		e.namespaces.waiting[k.Namespace] = waiters
		e.superviseSoon()
	}
	waiters[k] = struct{}{}
}

func (e *Engine) namespaceThereLocked(k Key) {
	waiters := e.namespaces.waiting[k.Namespace]
	if waiters == nil {
		return
	}
	delete(waiters, k)
	if len(waiters) == 0 {
		delete(e.namespaces.waiting, k.Namespace)
		e.superviseSoon()
	}
}
