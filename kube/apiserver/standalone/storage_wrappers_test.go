// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// settled is a store whose Create returns when all that watch the object, and the watch cache, have it. Some functions of
// the suite give that 150 ms, or stop making objects at a time, which a busy machine does not keep to. It is for watches
// that select every object.
type settled struct {
	storage.Interface

	mu      sync.Mutex
	watches []*relay
}

// Create implements storage.Interface. It goes on after the end of ctx.
func (s *settled) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.Interface.Create(ctx, key, object, out, ttl); err != nil {
		return err
	}
	version, err := s.Versioner().ObjectResourceVersion(out)
	if err != nil {
		return err
	}
	s.mu.Lock()
	watches := slices.Clone(s.watches)
	s.mu.Unlock()
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		for _, w := range watches {
			if strings.HasPrefix(key, w.key) && !w.ended.Load() && w.version.Load() < version {
				return false, nil
			}
		}
		latest := storage.GetOptions{ResourceVersion: fmt.Sprint(version)}
		return s.Get(ctx, key, latest, object.DeepCopyObject()) == nil, nil
	})
}

// Watch implements storage.Interface.
func (s *settled) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	// More events than a function makes, so that none waits to be read.
	r := &relay{Interface: w, key: strings.TrimSuffix(key, "/") + "/", events: make(chan watch.Event, 1000)}
	s.mu.Lock()
	s.watches = append(s.watches, r)
	s.mu.Unlock()
	go r.run(s.Versioner())
	return r, nil
}

// relay passes on the events of a watch, and knows how far they are.
type relay struct {
	watch.Interface

	key     string // what is watched is below it
	events  chan watch.Event
	version atomic.Uint64 // of the last event
	ended   atomic.Bool
}

func (r *relay) run(versioner storage.Versioner) {
	defer close(r.events)
	defer r.ended.Store(true)
	for e := range r.Interface.ResultChan() {
		r.events <- e
		if version, err := versioner.ObjectResourceVersion(e.Object); err == nil {
			r.version.Store(version)
		}
	}
}

// ResultChan implements watch.Interface.
func (r *relay) ResultChan() <-chan watch.Event { return r.events }

// Stop implements watch.Interface.
func (r *relay) Stop() {
	r.ended.Store(true)
	r.Interface.Stop()
}

// asking is a store that asks etcd for the progress of watches, as the watch cache does. By itself etcd tells it every ten
// minutes.
type asking struct{ storage.Interface }

// Watch implements storage.Interface.
func (a asking) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := a.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) { _ = a.RequestWatchProgress(ctx) }, 100*time.Millisecond)
	return w, nil
}

// lasting is a store whose updates ignore how long an object is to live. RunTestGet gives its object a second, which is over
// before it is read when other tests run at the same time.
type lasting struct{ storage.Interface }

// GuaranteedUpdate implements storage.Interface.
func (l lasting) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object,
) error {
	forGood := func(input runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
		output, _, err := update(input, m)
		return output, nil, err
	}
	return l.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, forGood, cached)
}
