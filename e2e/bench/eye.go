// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
)

// sight is what a watch can tell: of a deletion, only the name.
type sight struct {
	kind        watch.EventType
	name, value string
}

// eye watches the objects of the benchmark in one cluster and notes when it saw what last.
type eye struct {
	name string

	mu      sync.Mutex
	seen    map[sight]time.Time
	counts  map[counted]int
	latest  time.Time
	changed chan struct{}
}

type counted struct {
	kind watch.EventType
	way  way
}

// openEye begins to watch before it returns, on a connection of its own, and ends with ctx.
func openEye(ctx context.Context, c *harness.Cluster) (*eye, error) {
	conn, err := dial(c)
	if err != nil {
		return nil, err
	}
	stream, err := conn.watch(ctx, "bench")
	if err != nil {
		return nil, err
	}
	e := &eye{name: c.Name, seen: map[sight]time.Time{}, counts: map[counted]int{}, changed: make(chan struct{}, 1)}
	go func() {
		defer stream.Stop()
		for event := range stream.ResultChan() {
			if s, ok := event.Object.(*corev1.Secret); ok {
				e.saw(event.Type, s)
			}
		}
	}()
	return e, nil
}

func openEyes(ctx context.Context, clusters []*harness.Cluster) ([]*eye, error) {
	out := make([]*eye, len(clusters))
	for i, c := range clusters {
		var err error
		if out[i], err = openEye(ctx, c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *eye) saw(kind watch.EventType, s *corev1.Secret) {
	now := time.Now()
	at := sight{kind: kind, name: s.Name}
	if kind != watch.Deleted {
		value, _, _ := bytes.Cut(s.Data["v"], []byte(":"))
		at.value = string(value)
	}
	e.mu.Lock()
	e.seen[at] = now
	e.counts[counted{kind, way(s.Labels["bench"])}]++
	e.latest = now
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// await waits for a sight after a moment, and returns when it was.
func (e *eye) await(ctx context.Context, s sight, after time.Time) (time.Time, error) {
	var at time.Time
	err := e.until(ctx, func() bool {
		at = e.seen[s]
		return at.After(after)
	})
	if err != nil {
		return at, fmt.Errorf("in %s: %s %s: %w", e.name, s.kind, s.name, err)
	}
	return at, nil
}

// awaitCount waits for n events of a kind and way, and returns when the last one was.
func (e *eye) awaitCount(ctx context.Context, v verb, w way, n int) (time.Time, error) {
	var at time.Time
	got := 0
	err := e.until(ctx, func() bool {
		got, at = e.counts[counted{v.event(), w}], e.latest
		return got >= n
	})
	if err != nil {
		return at, fmt.Errorf("in %s, %s: %d of %d %s: %w", e.name, w, got, n, v.event(), err)
	}
	return at, nil
}

// until calls done, under the lock, whenever something was seen.
func (e *eye) until(ctx context.Context, done func() bool) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		e.mu.Lock()
		ok := done()
		e.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("not seen within %s", within)
		}
	}
}

// forget starts the counts anew.
func (e *eye) forget() {
	e.mu.Lock()
	clear(e.counts)
	clear(e.seen)
	e.mu.Unlock()
}
