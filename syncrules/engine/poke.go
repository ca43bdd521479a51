// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// poke is a Sink that only wants to know that something happened. It runs while stop is set.
type poke struct {
	seen func(obj *unstructured.Unstructured) // nil object: it was deleted
	stop func()
}

// Replace implements Sink.
func (p *poke) Replace(objs []*unstructured.Unstructured, _ string) {
	if len(objs) == 0 {
		p.seen(nil)
	}
	for _, obj := range objs {
		p.seen(obj)
	}
}

// Upsert implements Sink.
func (p *poke) Upsert(obj *unstructured.Unstructured) { p.seen(obj) }

// Delete implements Sink.
func (p *poke) Delete(string, string, *unstructured.Unstructured) { p.seen(nil) }

// Health implements Sink.
func (*poke) Health(error) {}

// superviseNamespaces watches namespaces while copies wait for some. mu is held.
func (e *Engine) superviseNamespaces(start starter) {
	switch {
	case len(e.missing) == 0 && e.nsWatch != nil:
		e.nsWatch.stop()
		e.nsWatch = nil
	case len(e.missing) > 0 && e.nsWatch == nil:
		w := &poke{seen: e.namespaceSeen}
		e.nsWatch = w
		scope := Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}}
		w.stop = start(func(ctx context.Context) { e.watch(ctx, e.o.Local, scope, nil, w) })
	}
}

// namespaceSeen wakes the copies that wait for the namespace.
func (e *Engine) namespaceSeen(obj *unstructured.Unstructured) {
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.missing[obj.GetName()] {
		e.notes[k].calm()
		e.enqueue(k)
	}
}

// awaitNamespace and namespaceThere keep missing. mu is held.
func (e *Engine) awaitNamespace(k Key) {
	waiters := e.missing[k.Namespace]
	if waiters == nil {
		waiters = map[Key]struct{}{}
		e.missing[k.Namespace] = waiters
		e.poke()
	}
	waiters[k] = struct{}{}
}

func (e *Engine) namespaceThere(k Key) {
	waiters := e.missing[k.Namespace]
	if waiters == nil {
		return
	}
	delete(waiters, k)
	if len(waiters) == 0 {
		delete(e.missing, k.Namespace)
		e.poke()
	}
}
