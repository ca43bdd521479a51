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

// informer keeps the objects of one kind in the local API server, watched and decoded. It is what client-go calls an
// informer, over the watch that the engine uses, too. It is a kube.Sink: the methods are called by one goroutine, while
// anybody may read the index. Objects in it are shared: never change one.
type informer struct {
	options kube.WatchOptions
	decode  func(*unstructured.Unstructured) (metav1.Object, error)
	told    observer
	log     *slog.Logger

	index  cache.Indexer
	synced chan struct{} // closed when the observer has seen the first complete list
	once   sync.Once     // closes it
}

// observer is told of what the index holds already: what was there, nil for a new object, and what is; or nil and the
// last state of an object that is gone.
type observer func(before, now any)

func newInformer[T any, P interface {
	*T
	metav1.Object
}](options kube.WatchOptions, trim func(P) P, indexers cache.Indexers, told observer, log *slog.Logger) *informer {
	return &informer{
		options: options, told: told, log: log.With("kind", options.GVK.Kind),
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

// run keeps the informer until ctx ends.
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
		delete(gone, keyOf(u)) // also when it cannot be read: it is there
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
		m.log.Error("an object of the local API server cannot be read and stays as it was", "error", err)
		return
	}
	before, _, _ := m.index.GetByKey(keyOf(now)) // this index returns no error
	if was, ok := before.(metav1.Object); ok && was.GetUID() == now.GetUID() && was.GetResourceVersion() == now.GetResourceVersion() {
		return // a new list
	}
	if err := m.index.Update(now); err != nil {
		m.log.Error("an object cannot be kept", "error", err)
		return
	}
	m.told(before, now)
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
		m.log.Error("an object cannot be dropped", "error", err)
		return
	}
	m.told(nil, last)
}

// Health is for the log alone: what is kept is as it was last known while the API server is away, and what needs
// the API server says so itself.
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
