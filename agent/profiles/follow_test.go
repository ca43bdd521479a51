// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube"
)

// watches is a watcher whose watches do what the test tells them.
type watches struct {
	opened chan string // versions
	ended  chan string
	mu     sync.Mutex
	tell   map[string]chan func(kube.Sink)
}

func (w *watches) of(version string) chan func(kube.Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tell[version] == nil {
		w.tell[version] = make(chan func(kube.Sink))
	}
	return w.tell[version]
}

func (w *watches) Watch(ctx context.Context, o kube.WatchOptions, s kube.Sink) error {
	w.opened <- o.GVK.Version
	defer func() { w.ended <- o.GVK.Version }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case do := <-w.of(o.GVK.Version):
			do(s)
		}
	}
}

// serving is a sink that says which version is in use.
type serving struct{ now chan string }

func (s serving) Serve(kind schema.GroupVersionKind)               { s.now <- kind.Version }
func (s serving) Replace([]*unstructured.Unstructured, string)     {}
func (s serving) Upsert(*unstructured.Unstructured)                {}
func (s serving) Delete(_, _ string, _ *unstructured.Unstructured) {}
func (s serving) Health(error)                                     {}
func listed(s kube.Sink)                                           { s.Replace(nil, "1") }
func missing(s kube.Sink)                                          { s.Health(kube.ErrKindUnknown) }

// The best version that is served is followed: it is gone over to when it arrives, and from when it goes. One that is in
// use is watched alone.
func TestFollow(t *testing.T) {
	w := &watches{opened: make(chan string), ended: make(chan string, 8), tell: map[string]chan func(kube.Sink){}}
	to := serving{make(chan string, 8)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- follow(ctx, w, profileKinds(), kube.WatchOptions{}, to) }()
	want := func(from <-chan string, what ...string) {
		t.Helper()
		var got []string
		for range what {
			got = append(got, <-from)
		}
		if !slices.Equal(got, what) {
			t.Fatalf("got %q, want %q", got, what)
		}
	}
	want(w.opened, "v1alpha2")
	w.of("v1alpha2") <- missing
	want(w.opened, "v1alpha1")
	w.of("v1alpha2") <- missing // said again
	w.of("v1alpha1") <- missing
	w.of("v1alpha1") <- listed
	want(to.now, "v1alpha1")
	w.of("v1alpha2") <- listed
	want(w.ended, "v1alpha1")
	want(to.now, "v1alpha2")
	w.of("v1alpha2") <- listed // another list
	w.of("v1alpha2") <- missing
	want(to.now, "")
	want(w.opened, "v1alpha1")
	w.of("v1alpha1") <- listed
	want(to.now, "v1alpha1")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(to.now) > 0 {
		t.Fatalf("then %q", <-to.now)
	}
}
