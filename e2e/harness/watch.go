// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Sighting is one state of a watched object and when this process saw it.
type Sighting struct {
	At     time.Time
	Object *unstructured.Unstructured // nil: it is not there
}

// Watch keeps every state of one object, so that what took how long can be told afterwards.
type Watch struct {
	what string

	mu      sync.Mutex
	seen    []Sighting
	next    int // the first that Until has not consumed
	changed chan struct{}
}

// Watch begins before it returns, and ends with ctx. It goes on when the API server was away.
func (c *Cluster) Watch(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*Watch, error) {
	w := &Watch{what: fmt.Sprintf("%s %s in %s", gvr.Resource, name, c.Name), changed: make(chan struct{}, 1)}
	client := c.Dynamic.Resource(gvr).Namespace(namespace)
	stream, err := w.open(ctx, client, name)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.what, err)
	}
	go func() {
		for {
			w.follow(stream)
			_, err := Wait(ctx, "watch "+w.what, time.Hour, func(context.Context) (err error) {
				stream, err = w.open(ctx, client, name) // the outer context: a watch outlives the wait
				return err
			})
			if err != nil {
				return // ctx has ended
			}
		}
	}()
	return w, nil
}

func (w *Watch) open(ctx context.Context, client dynamic.ResourceInterface, name string) (watch.Interface, error) {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return nil, err
	}
	var now *unstructured.Unstructured
	if len(list.Items) > 0 {
		now = &list.Items[0]
	}
	w.add(now)
	return client.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: list.GetResourceVersion()})
}

func (w *Watch) follow(stream watch.Interface) {
	defer stream.Stop()
	for event := range stream.ResultChan() {
		switch object, ok := event.Object.(*unstructured.Unstructured); {
		case !ok || event.Type == watch.Error:
			return
		case event.Type == watch.Deleted:
			w.add(nil)
		default:
			w.add(object)
		}
	}
}

func (w *Watch) add(object *unstructured.Unstructured) {
	w.mu.Lock()
	w.seen = append(w.seen, Sighting{At: time.Now(), Object: object})
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Until goes on from where the last call of Until stopped, and returns the next state that cond accepts
// (it gets nil for "not there").
func (w *Watch) Until(ctx context.Context, what string, within time.Duration, cond func(*unstructured.Unstructured) bool) (Sighting, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		if s, found := w.find(cond); found {
			return s, nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return Sighting{}, ctx.Err()
		case <-timer.C:
			return Sighting{}, fmt.Errorf("%s: %s: not within %s", w.what, what, within)
		}
	}
}

func (w *Watch) find(cond func(*unstructured.Unstructured) bool) (Sighting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.next < len(w.seen) {
		s := w.seen[w.next]
		w.next++
		if cond(s.Object) {
			return s, true
		}
	}
	return Sighting{}, false
}

// Present accepts any state but "not there".
func Present(o *unstructured.Unstructured) bool { return o != nil }

// Absent accepts only "not there".
func Absent(o *unstructured.Unstructured) bool { return o == nil }
