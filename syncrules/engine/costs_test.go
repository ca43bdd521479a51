// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// An update of a source is matched once, and the lock is taken four times until its copy is written and the watch has
// told of that: by the view, to gather, to record, and by the watch of copies.
func TestCostOfACopy(t *testing.T) {
	target := newServer("default")
	e, err := New(Options{LocalClusterID: here, Local: &silent{}, Target: target, Cluster: func() *v1alpha1.Cluster { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var locks, matches atomic.Int64
	e.mu.taken, e.metrics.matches = &locks, &matches
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer func() {
		cancel()
		group.Wait()
		e.queue.ShutDown()
	}()
	e.queue.open()
	e.SetRule(testRule("r"))
	e.SetPeer(Peer{ClusterID: a, Source: &silent{}, FeaturesKnown: true})
	e.Ready()
	e.supervise(ctx, &group)
	var copies *copyFeed
	for _, w := range e.local.watches {
		copies = w.feed
	}
	copies.Replace(nil, "1")
	copies.Health(nil)
	var source *feed
	for _, v := range e.views.byPeer[a] {
		source = v.feed
	}
	source.Replace(nil, "1")
	source.Health(nil)
	e.supervise(ctx, &group)

	update := func(version, value string) (int64, int64) {
		t.Helper()
		locks.Store(0)
		matches.Store(0)
		obj := configMap("x", value)
		obj.SetResourceVersion(version)
		if !source.keep(obj) {
			t.Fatal("the rule does not select it")
		}
		source.Upsert(obj)
		e.process(ctx, cm("x"))
		written := target.find(cm("x"))
		if written == nil || written.Object["data"].(map[string]any)["v"] != value {
			t.Fatalf("the copy is %v", written)
		}
		copies.Upsert(written)
		return locks.Load(), matches.Load()
	}
	for i, value := range []string{"created", "updated", "updated again"} {
		locks, matches := update(string('5'+rune(i)), value)
		if locks > 4 || matches != 1 {
			t.Errorf("%s: the lock was taken %d times, want at most 4; it was matched %d times, want once", value, locks, matches)
		}
	}
	// A Source may hand over another object than the one that it asked about.
	matches.Store(0)
	asked, other := configMap("y", "1"), configMap("y", "1")
	asked.SetResourceVersion("10")
	other.SetResourceVersion("11")
	other.SetNamespace("other")
	if !source.keep(asked) {
		t.Fatal("the rule does not select it")
	}
	source.Upsert(other)
	source.Upsert(asked)
	if n := matches.Load(); n != 3 {
		t.Errorf("matched %d times, want 3: once when it was asked, and both that were handed over", n)
	}
	if _, known := source.v.entries[place.NameOf(other)]; known || len(source.v.entries) != 2 {
		t.Errorf("%d entries", len(source.v.entries))
	}
}
