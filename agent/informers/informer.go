// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/kube"
)

// informer keeps the objects of one kind in the local API server, decoded. It is like an informer of client-go, but
// uses the same watch as the engine. It implements kube.Sink: one goroutine calls its methods, and any goroutine may
// read the index.
type informer struct {
	options kube.WatchOptions
	decode  func(*unstructured.Unstructured) (metav1.Object, error)
	notify  observer
	log     *slog.Logger

	index  cache.Indexer
	synced chan struct{} // closed when notify has been called for the first complete list
	once   sync.Once     // closes it
}

// observer is called after the index has a change. before is the previous object, nil for a new one; now is the present
// one. For a deleted object before is nil, and now its last state.
type observer func(before, now any)

func newInformer[T any, P interface {
	*T
	metav1.Object
}](options kube.WatchOptions, trim func(P) P, indexers cache.Indexers, notify observer, log *slog.Logger) *informer {
	return &informer{
		options: options, notify: notify, log: log.With("kind", options.GVK.Kind),
		decode: func(u *unstructured.Unstructured) (metav1.Object, error) {
			o, err := kube.Decode[T](u)
			if err != nil {
				return nil, err
			}
			return trim(o), nil
		},
		index: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers), synced: make(chan struct{}),
	}
}

// run watches until ctx ends.
func (m *informer) run(ctx context.Context, client *kube.Client) error {
	if err := client.Watch(ctx, m.options, m); ctx.Err() == nil {
		return err
	}
	return nil
}

func (m *informer) Replace(objs []*unstructured.Unstructured, _ string) {
	gone := map[string]any{}
	for _, o := range m.index.List() {
		gone[keyOf(o)] = o
	}
	for _, u := range objs {
		delete(gone, keyOf(u)) // it exists, even if it cannot be decoded
		m.Upsert(u)
	}
	for _, o := range gone {
		m.remove(o, o)
	}
	m.once.Do(func() { close(m.synced) })
}

func (m *informer) Upsert(u *unstructured.Unstructured) {
	now, err := m.decode(u)
	if err != nil {
		m.log.Error("an object of the local API server cannot be decoded; its last known state is kept", "error", err)
		return
	}
	before, _, _ := m.index.GetByKey(keyOf(now)) // this index returns no error
	if was, ok := before.(metav1.Object); ok && was.GetUID() == now.GetUID() && was.GetResourceVersion() == now.GetResourceVersion() {
		return // unchanged, in a new list
	}
	if err := m.index.Update(now); err != nil {
		m.log.Error("an object cannot be added to the index", "error", err)
		return
	}
	m.notify(before, now)
}

func (m *informer) Delete(_, _ string, u *unstructured.Unstructured) {
	before, known, _ := m.index.GetByKey(keyOf(u))
	if !known {
		return
	}
	last := before
	if o, err := m.decode(u); err == nil {
		last = o // with the version of the deletion
	}
	m.remove(before, last)
}

func (m *informer) remove(known, last any) {
	if err := m.index.Delete(known); err != nil {
		m.log.Error("an object cannot be deleted from the index", "error", err)
		return
	}
	m.notify(nil, last)
}

// Health only logs. While the API server is unreachable the index keeps its last state, and parts that need the API
// server report that themselves.
func (m *informer) Health(err error) {
	switch {
	case err == nil, errors.Is(err, kube.ErrRelisting), errors.Is(err, kube.ErrUnreachable):
		m.log.Debug("watching the local API server", "error", err)
	default:
		m.log.Warn("the local API server cannot be watched", "error", err)
	}
}

// keyOf is an object's key in the index.
func keyOf(o any) string {
	key, err := cache.MetaNamespaceKeyFunc(o)
	if err != nil {
		return "" // an object without metadata; no API server has one
	}
	return key
}
