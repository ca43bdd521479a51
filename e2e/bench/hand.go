// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
)

// workers is how many requests an agent has under way at most, and so a bare writer and the pipeline.
const workers = 16

// hand is the least that can carry objects from one API server to another: for each target, one watch of the
// source whose events are turned into one request each. It knows no rule, takes no decision, keeps nothing,
// would not survive an outage, and needs no version of what it updates; but what it writes is marked as a copy is. Nothing that is an agent can be faster.
type hand struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu  sync.Mutex
	err error
}

func startHand(ctx context.Context, source *harness.Cluster, targets []*harness.Cluster) (*hand, error) {
	ctx, stop := context.WithCancel(ctx)
	h := &hand{stop: stop}
	for _, target := range targets {
		if err := h.carry(ctx, source, target); err != nil {
			stop()
			return nil, err
		}
	}
	return h, nil
}

// carry serves one target. Events of one object stay in order.
func (h *hand) carry(ctx context.Context, source, target *harness.Cluster) error {
	from, err := dialAsAgent(source)
	if err != nil {
		return err
	}
	to, err := dialAsAgent(target)
	if err != nil {
		return err
	}
	stream, err := from.watch(ctx, "bench="+string(wayHand))
	if err != nil {
		return err
	}
	lanes := make([]chan watch.Event, workers)
	for i := range lanes {
		lanes[i] = make(chan watch.Event, 1024)
		h.done.Go(func() {
			for event := range lanes[i] {
				h.write(ctx, to, event)
			}
		})
	}
	h.done.Go(func() {
		defer stream.Stop()
		for event := range stream.ResultChan() {
			if s, ok := event.Object.(*corev1.Secret); ok {
				hash := fnv.New32a()
				_, _ = hash.Write([]byte(s.Name)) // never fails
				lanes[hash.Sum32()%workers] <- event
			}
		}
		for _, lane := range lanes {
			close(lane)
		}
	})
	return nil
}

func (h *hand) write(ctx context.Context, to *conn, event watch.Event) {
	s, _ := event.Object.(*corev1.Secret)
	s.ObjectMeta = metav1.ObjectMeta{Name: s.Name, Labels: s.Labels}
	to.mark(s)
	var err error
	switch event.Type {
	case watch.Added:
		_, err = to.secrets.Create(ctx, s, metav1.CreateOptions{})
	case watch.Modified:
		_, err = to.secrets.Update(ctx, s, metav1.UpdateOptions{})
	case watch.Deleted:
		err = to.secrets.Delete(ctx, s.Name, metav1.DeleteOptions{})
	case watch.Bookmark, watch.Error:
	}
	if err != nil && ctx.Err() == nil {
		h.mu.Lock()
		h.err = fmt.Errorf("hand-written pipeline: %w", err)
		h.mu.Unlock()
	}
}

// close ends the pipeline and returns what went wrong in it.
func (h *hand) close() error {
	h.stop()
	h.done.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
