// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxForeign bounds the watches of single objects that are in the way of copies. What is beyond is read again
// from time to time.
const maxForeign = 16

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

// foreign is a local object without marks that has the name of a copy. It is watched by name, so that the
// copy can follow as soon as it is gone.
type foreign struct {
	gvk   schema.GroupVersionKind
	watch *poke
	seen  string // the resourceVersion that was decided on
}

// superviseForeign watches what is in the way. mu is held.
func (e *Engine) superviseForeign(start starter) {
	open := 0
	for _, f := range e.foreign {
		if f.watch != nil {
			open++
		}
	}
	for k, f := range e.foreign {
		if f.watch != nil || open >= maxForeign {
			continue
		}
		open++
		f.watch = &poke{seen: func(obj *unstructured.Unstructured) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.foreign[k] == f && (obj == nil || obj.GetResourceVersion() != f.seen) {
				e.enqueue(k)
			}
		}}
		scope := Scope{GVK: f.gvk, Namespace: k.Namespace, FieldSelector: "metadata.name=" + k.Name}
		f.watch.stop = start(func(ctx context.Context) { e.watch(ctx, e.o.Local, scope, nil, f.watch) })
	}
}

// standsAside ends the watch of an object that is not in the way any more. mu is held.
func (e *Engine) standsAside(k Key) {
	f := e.foreign[k]
	if f == nil {
		return
	}
	delete(e.foreign, k)
	if f.watch != nil {
		f.watch.stop()
		e.poke() // room for the next
	}
}

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
