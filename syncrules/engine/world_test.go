// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	here = "11111111-0000-0000-0000-000000000000"
	a    = "aaaaaaaa-0000-0000-0000-000000000000"
	b    = "bbbbbbbb-0000-0000-0000-000000000000"
)

// world is one engine between a local API server and those of its peers, in a synctest bubble.
type world struct {
	t       *testing.T
	local   *server
	peers   map[string]*server
	rules   map[string]*v1alpha1.ResourceSyncRule
	cluster *v1alpha1.Cluster
	options func(*Options)

	e       *Engine
	stop    func()
	mu      sync.Mutex
	reports map[string]RuleReport
	sent    int
	events  []tally.RuleEvent
	scopes  []Scope
}

// inWorld runs a test with an engine that is running and knows two peers.
func inWorld(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, local: newServer("default", "team"), rules: map[string]*v1alpha1.ResourceSyncRule{},
			peers:   map[string]*server{a: newServer("default", "team"), b: newServer("default", "team")},
			cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{"tier": "edge"}}},
			reports: map[string]RuleReport{},
		}
		w.start()
		f(w)
		w.kill()
	})
}

func (w *world) prepare() {
	o := Options{
		LocalClusterID: here, Namespace: "cluster-registry", Local: w.local, Target: w.local,
		Cluster: func() *v1alpha1.Cluster { return w.cluster },
		Namespaced: func(_ context.Context, gvk schema.GroupVersionKind) (bool, error) {
			w.local.mu.Lock()
			defer w.local.mu.Unlock()
			if w.local.unserved[gvk.Kind] {
				return false, ErrKindUnknown
			}
			return !strings.HasPrefix(gvk.Kind, "Cluster"), nil
		},
		Report: func(rule string, r RuleReport) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports[rule] = r
			w.sent++
		},
		Event: func(rule string, event Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, tally.RuleEvent{Rule: rule, Event: event})
		},
		Scopes:        w.scopes,
		ScopesChanged: func(s []Scope) { w.scopes = s },
	}
	if w.options != nil {
		w.options(&o)
	}
	var err error
	if w.e, err = New(o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.e.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}
}

// start makes an engine that is told everything, as an agent does.
func (w *world) start() {
	w.prepare()
	for _, r := range w.rules {
		w.e.SetRule(r.DeepCopy(), nil)
	}
	for id, s := range w.peers {
		w.e.SetPeer(Peer{ClusterID: id, Source: s, FeaturesKnown: true})
	}
	w.e.Ready()
	w.run()
	w.settle()
}

func (w *world) kill() {
	w.stop()
	w.stop = func() {}
	time.Sleep(time.Minute) // timers of the queue and of back-offs end
	synctest.Wait()
}

// settle lets everything happen that happens at once, and the waits of a few seconds.
func (w *world) settle() {
	synctest.Wait()
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

// now lets only what needs no waiting happen.
func (w *world) now() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

func (w *world) setRule(r *v1alpha1.ResourceSyncRule) {
	r.Generation = 1
	if old := w.rules[r.Name]; old != nil {
		r.Generation = old.Generation + 1
	}
	w.rules[r.Name] = r
	w.e.SetRule(r.DeepCopy(), nil)
}

func (w *world) report(rule string) RuleReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports[rule]
}

func (w *world) wantReady(rule string, status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	r := w.report(rule)
	if len(r.Conditions) == 0 || r.Conditions[0].Status != status || r.Conditions[0].Reason != reason {
		w.t.Errorf("rule %s reports %+v, want Ready=%s %s", rule, r.Conditions, status, reason)
	}
}

func (w *world) wantValue(k Key, want string) {
	w.t.Helper()
	obj := w.local.find(k)
	if obj == nil {
		w.t.Errorf("%s does not exist, want value %q", k, want)
		return
	}
	if got, _, _ := unstructured.NestedString(obj.Object, "data", "v"); got != want {
		w.t.Errorf("%s has value %q, want %q", k, got, want)
	}
}

func (w *world) wantGone(k Key) {
	w.t.Helper()
	if w.local.find(k) != nil {
		w.t.Errorf("%s exists, want it gone", k)
	}
}

func (w *world) wantOwner(k Key, owner string, orphan bool) {
	w.t.Helper()
	obj := w.local.find(k)
	if obj == nil {
		w.t.Errorf("%s does not exist", k)
		return
	}
	if syncrules.Owner(obj) != owner || syncrules.Orphaned(obj) != orphan {
		w.t.Errorf("%s: owner %s, orphaned %t; want %s, %t", k, syncrules.Owner(obj), syncrules.Orphaned(obj), owner, orphan)
	}
}

func configMap(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
		"data": map[string]any{"v": value},
	}}
}

func cm(name string) Key { return serverKey(configMap(name, "")) }

// rule selects ConfigMaps in the namespace default, by name when names are given.
func testRule(name string, names ...string) *v1alpha1.ResourceSyncRule {
	r := &v1alpha1.ResourceSyncRule{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ResourceSyncRuleSpec{
			GVK:   v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Rules: []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Namespaces: []string{"default"}}}}},
		},
	}
	if len(names) > 0 {
		r.Spec.Rules[0].Matches = nil
	}
	for _, n := range names {
		r.Spec.Rules[0].Matches = append(r.Spec.Rules[0].Matches, v1alpha1.SyncRuleMatch{ObjectKey: &v1alpha1.ObjectKey{Name: n, Namespace: "default"}})
	}
	return r
}

func withAnnotations(obj *unstructured.Unstructured, add map[string]string) *unstructured.Unstructured {
	all := obj.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, add)
	obj.SetAnnotations(all)
	return obj
}
