// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wiring is what a part of the Engine needs of it. What ends in Locked is called with the lock held.
type wiring struct {
	lock          sync.Locker // Engine.mu
	superviseSoon func()
	enqueueLocked func(Key) // puts a copy up for a decision
	// watch watches the local API server, until stop is called.
	watch func(start starter, scope Scope, keep func(*unstructured.Unstructured) bool, sink Sink) (stop func())
}

func (e *Engine) wiring() wiring {
	return wiring{
		lock: &e.mu, superviseSoon: e.superviseSoon, enqueueLocked: e.queue.enqueueLocked,
		watch: func(start starter, scope Scope, keep func(*unstructured.Unstructured) bool, sink Sink) func() {
			return start(func(ctx context.Context) { e.watch(ctx, e.o.Local, scope, keep, sink) })
		},
	}
}

// retryLocked puts a copy up, without waiting for its back-off, if it is not as it should be for a reason, "" for any.
func (e *Engine) retryLocked(k Key, reason string) {
	if r := e.outcomes.results[k]; reason == "" || r != nil && r.Reason == reason {
		e.outcomes.pacer.Succeeded(k)
		e.queue.enqueueLocked(k)
	}
}
