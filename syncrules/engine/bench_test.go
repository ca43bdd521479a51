// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
)

// The sizes of the benchmarks: every rule has a namespace, and so a view at every peer, to itself.
const (
	benchPeers  = 500
	benchRules  = 20
	benchCopies = 5000
)

// silent is a Source that never says anything.
type silent struct{ _ byte }

func (*silent) Watch(ctx context.Context, _ Scope, _ func(*unstructured.Unstructured) bool, _ Sink) error {
	<-ctx.Done()
	return ctx.Err()
}

// large is an engine with many peers, whose parts are called one by one.
type large struct {
	*Engine
	ctx   context.Context //nolint:containedctx // a fixture, as long as its benchmark
	group sync.WaitGroup
	keys  []Key
}

func benchPeer(i int) string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", i) }

func benchObject(i int) *unstructured.Unstructured {
	obj := configMap(fmt.Sprintf("x%04d", i), strings.Repeat("v", 900))
	obj.SetNamespace(fmt.Sprintf("ns%d", i%benchRules))
	return obj
}

// newLarge has one object at one peer for each of benchCopies, and its copy here; share says that all peers
// have the first of them.
func newLarge(b *testing.B, share bool) *large {
	b.Helper()
	e, err := New(Options{LocalClusterID: here, Local: &silent{}, Target: newServer(), Cluster: func() *v1alpha1.Cluster { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &large{Engine: e, ctx: ctx}
	b.Cleanup(func() { cancel(); w.group.Wait(); e.queue.ShutDown() })
	e.queue.Open()
	for i := range benchRules {
		r := testRule(fmt.Sprintf("r%02d", i))
		r.Spec.Rules[0].Matches[0].Namespaces[0] = fmt.Sprintf("ns%d", i)
		e.SetRule(r, nil)
	}
	for i := range benchPeers {
		e.SetPeer(Peer{ClusterID: benchPeer(i), Source: &silent{}, FeaturesKnown: true})
	}
	e.Ready()
	e.supervise(ctx, &w.group)
	for _, l := range e.local.watches {
		l.feed.Replace(nil, "1")
		l.feed.Health(nil)
	}
	views := map[string]*view{}
	for _, v := range w.allViews() {
		views[v.peer+v.scope.Namespace] = v
		v.judges, v.live, v.answered = v.feed.judges, true, true
	}
	for i := range benchCopies {
		w.addCopy(b, views, i, share && i == 0)
	}
	e.supervise(ctx, &w.group)
	return w
}

func (w *large) addCopy(b *testing.B, views map[string]*view, i int, shared bool) {
	b.Helper()
	obj, owner := benchObject(i), benchPeer(i%benchPeers)
	w.keys = append(w.keys, serverKey(obj))
	for p := range benchPeers {
		if id := benchPeer(p); shared || id == owner {
			views[id+obj.GetNamespace()].feed.Upsert(obj.DeepCopy())
		}
	}
	made, err := syncrules.Render([]*syncrules.Rule{w.rules.byName[fmt.Sprintf("r%02d", i%benchRules)].compiled}, obj, syncrules.Input{Owner: owner})
	if err != nil {
		b.Fatal(err)
	}
	made.SetResourceVersion("1")
	w.mu.Lock()
	w.putCopyLocked(serverKey(made), copies.New(made))
	w.mu.Unlock()
}

// BenchmarkGather500 is what a worker does with the lock held, for each key.
func BenchmarkGather500(b *testing.B) {
	w := newLarge(b, false)
	for i := 0; b.Loop(); i++ {
		w.mu.Lock()
		if w.gatherLocked(w.keys[i%len(w.keys)]) == nil {
			b.Fatal("nothing was gathered")
		}
		w.mu.Unlock()
	}
}

// BenchmarkTurnedLive500 is a view of which the first list is complete.
func BenchmarkTurnedLive500(b *testing.B) {
	w := newLarge(b, false)
	views := w.allViews()
	for i := 0; b.Loop(); i++ {
		views[i%len(views)].feed.Health(nil)
	}
}

// BenchmarkSuperviseIdle500 is a pass when nothing changed.
func BenchmarkSuperviseIdle500(b *testing.B) {
	w := newLarge(b, false)
	for b.Loop() {
		w.supervise(w.ctx, &w.group)
	}
}

// BenchmarkPeerConnects500 is a pass after one peer has another Source.
func BenchmarkPeerConnects500(b *testing.B) {
	w := newLarge(b, false)
	for i := 0; b.Loop(); i++ {
		w.SetPeer(Peer{ClusterID: benchPeer(i % benchPeers), Source: &silent{}, FeaturesKnown: true})
		w.supervise(w.ctx, &w.group)
	}
}

// BenchmarkShared500 is the decision about an object that all peers have.
func BenchmarkShared500(b *testing.B) {
	w := newLarge(b, true)
	b.Run("gather", func(b *testing.B) {
		for b.Loop() {
			w.mu.Lock()
			_ = w.gatherLocked(w.keys[0])
			w.mu.Unlock()
		}
	})
	b.Run("decide", func(b *testing.B) {
		w.mu.Lock()
		j := w.gatherLocked(w.keys[0])
		w.mu.Unlock()
		if len(j.claims) != benchPeers {
			b.Fatalf("%d claims", len(j.claims))
		}
		for b.Loop() {
			again := *j
			if out := w.decide(w.ctx, &again); out.problem != nil || out.decision.Action != syncrules.None || len(out.decision.Rivals) > 0 {
				b.Fatalf("%+v", out)
			}
		}
	})
}

func (w *large) allViews() (out []*view) {
	for _, views := range w.views.byPeer {
		for _, v := range views {
			out = append(out, v)
		}
	}
	return out
}

// BenchmarkUpdate500 is an update of a source, from when its Source asks about it until the copy is put up.
func BenchmarkUpdate500(b *testing.B) {
	w := newLarge(b, false)
	feeds := map[string]*feed{}
	for _, v := range w.allViews() {
		feeds[v.peer+v.scope.Namespace] = v.feed
	}
	var objects [2]*unstructured.Unstructured
	for i := range objects {
		objects[i] = benchObject(0)
		objects[i].SetResourceVersion(fmt.Sprint(i))
		objects[i].Object["data"] = map[string]any{"v": strings.Repeat(fmt.Sprint(i), 900)}
	}
	f := feeds[benchPeer(0)+objects[0].GetNamespace()]
	for i := 0; b.Loop(); i++ {
		obj := objects[i%2].DeepCopy()
		if !f.keep(obj) {
			b.Fatal("it is not selected")
		}
		f.Upsert(obj)
	}
}
