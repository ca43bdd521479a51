// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube"
)

// sink receives the objects of a kind that the API server serves in some version.
type sink interface {
	kube.Sink
	// Serve says in which version the objects are served from now on; the zero value means in none. What was received
	// before is forgotten.
	Serve(kind schema.GroupVersionKind)
}

// watcher is kube.Client.
type watcher interface {
	Watch(ctx context.Context, o kube.WatchOptions, s kube.Sink) error
}

// follow watches objects in the best version that is served, until ctx ends. kinds are the versions, best first: while one
// is not served, and Watch waits for its CRD, the next one is followed.
func follow(ctx context.Context, client watcher, kinds []schema.GroupVersionKind, o kube.WatchOptions, to sink) error {
	v := &version{sink: to, kind: kinds[0], stop: func() {}}
	if len(kinds) > 1 {
		v.next = func() (stop func()) {
			ctx, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = follow(ctx, client, kinds[1:], o, to) // it says nothing but that ctx has ended
			}()
			return func() {
				cancel()
				<-ended
			}
		}
	}
	o.GVK = v.kind
	err := client.Watch(ctx, o, v)
	if v.stop(); ctx.Err() != nil {
		return nil //nolint:nilerr // the agent stops
	}
	return err
}

// version is the sink of one version. The goroutine of its watch alone uses it.
type version struct {
	sink
	kind schema.GroupVersionKind
	next func() (stop func()) // follows the next version; nil for the last one
	stop func()               // ends that

	live, waiting bool // it is the version in use; it is not served, and the next one is followed
}

// Replace implements kube.Sink. The first list makes this version the one in use.
func (v *version) Replace(objs []*unstructured.Unstructured, resourceVersion string) {
	if !v.live {
		v.stop()
		v.live, v.waiting, v.stop = true, false, func() {}
		v.Serve(v.kind)
	}
	v.sink.Replace(objs, resourceVersion)
}

// Health implements kube.Sink.
func (v *version) Health(err error) {
	if !errors.Is(err, kube.ErrKindUnknown) {
		v.sink.Health(err)
		return
	}
	if v.live {
		v.live = false
		v.Serve(schema.GroupVersionKind{})
	}
	if v.next != nil && !v.waiting {
		v.waiting, v.stop = true, v.next()
	}
}
