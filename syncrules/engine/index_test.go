// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// checkIndexes compares the indexes with what they index.
func (w *world) checkIndexes() {
	w.t.Helper()
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	targets := 0
	for _, views := range e.views.byPeer {
		for s, v := range views {
			for at, ent := range v.entries {
				for to := range ent.destinations.Places(v.key(at)) {
					targets++
					if !slices.Contains(e.views.holders[to.GroupKind][to.NamespacedName()], holding{v, at}) {
						w.t.Errorf("the entry %v %v of %s is in no index", s.GVK.Kind, at, v.peer)
					}
				}
			}
		}
	}
	for gk, at := range e.views.holders {
		for place, held := range at {
			targets -= len(held)
			if len(held) == 0 || !slices.IsSortedFunc(held, holding.compare) {
				w.t.Errorf("%s %v is held by %v", gk, place, held)
			}
		}
	}
	w.checkBurdens()
	w.checkCounted()
	if targets != 0 {
		w.t.Errorf("%d more copies of entries than are indexed", targets)
	}
}

// checkCounted looks for the copies that are counted as lacking or kept.
func (w *world) checkCounted() {
	w.t.Helper()
	for _, r := range w.e.rules.byName {
		for _, gk := range r.kinds {
			for at, c := range w.e.local.copies.All(gk) {
				k := place.At(gk, at)
				if f, _ := w.e.findLocked(r, c.Owner, c.Source(k), k); f == syncrules.FoundPresent && r.guard.Lacks(c.Owner, k) {
					w.t.Errorf("rule %s counts %v of %s, whose source is there", r.name, k, c.Owner)
				}
			}
		}
		r.guard.Each(func(owner string, k Key, kept bool) {
			c := w.e.local.copies.At(k)
			if c == nil || c.Owner != owner || !c.MadeBy(r.name) || c.Disabled != kept {
				w.t.Errorf("rule %s counts %v of %s, which is not there, or is not so", r.name, k, owner)
			}
		})
	}
}

func (w *world) checkBurdens() {
	w.t.Helper()
	e := w.e
	for _, id := range e.clusters.ids {
		b := e.views.memory.Of(id)
		var held [2]int64
		for _, v := range e.views.byPeer[id] {
			for _, ent := range v.entries {
				held[0]++
				held[1] += ent.size()
			}
		}
		if held != [2]int64{b.Held.Objects.Load(), b.Held.Bytes.Load()} || b.Coming.Objects.Load() != 0 || b.Coming.Bytes.Load() != 0 {
			w.t.Errorf("%s: %v objects and bytes are held; counted are %d, %d, and %d are on the way", id, held,
				b.Held.Objects.Load(), b.Held.Bytes.Load(), b.Coming.Objects.Load())
		}
		if want := memory.Weight(held[0], held[1]); b.Weight() != want {
			w.t.Errorf("%s: of the memory it has %d, want %d", id, b.Weight(), want)
		}
	}
}

// What did not change must cost nothing, however often it is told.
func TestNothingChangedCostsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}}
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		decided := w.decisions()
		for id, s := range w.peers {
			w.e.SetPeer(Peer{ClusterID: id, Source: s, FeaturesKnown: true})
		}
		if len(w.e.supervisor.wake) > 0 {
			t.Errorf("a peer that is as it was wakes the supervisor")
		}
		w.cluster = &v1alpha1.Cluster{ObjectMeta: w.cluster.ObjectMeta, Status: v1alpha1.ClusterStatus{Leader: true}}
		w.e.ClusterChanged()
		w.settle()
		if n := w.decisions() - decided; n > 0 {
			t.Errorf("%d decisions after nothing changed", n)
		}
		// One peer that comes back is about its own objects alone.
		w.e.SetPeer(Peer{ClusterID: b, Why: "no connection"})
		w.settle()
		w.e.SetPeer(Peer{ClusterID: b, Source: w.peers[b], FeaturesKnown: true})
		w.settle()
		if n := w.decisions() - decided; n > 0 {
			t.Errorf("%d decisions about objects of another peer", n)
		}
		w.cluster = &v1alpha1.Cluster{}
		w.e.ClusterChanged()
		w.settle()
		w.wantOwner(cm("x"), a, true)
	})
}

// An edit of a rule has what is about that rule looked at again, and nothing else.
func TestEditIsAboutOneRule(t *testing.T) {
	inWorld(t, func(w *world) {
		const few, others = 20, 200
		names := map[string][]string{}
		for i := range few + others {
			rule := "edited"
			if i >= few {
				rule = "other"
			}
			name := fmt.Sprint("x", i)
			names[rule] = append(names[rule], name)
			w.peers[a].put(configMap(name, "1"))
		}
		for rule := range names {
			w.setRule(testRule(rule, names[rule]...))
		}
		w.settle()
		decided := w.decisions()
		edited := testRule("edited", names["edited"]...)
		edited.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{Path: "/data/v", Value: "2"}}
		w.setRule(edited)
		w.settle()
		w.wantValue(cm("x0"), "2")
		if n := w.decisions() - decided; n > 2*few {
			t.Errorf("%d decisions about %d copies", n, few)
		}
		w.e.DeleteRule("edited")
		w.settle()
		w.wantOwner(cm("x1"), a, true)
		w.wantOwner(cm(names["other"][0]), a, false)
		if n := w.decisions() - decided; n > 4*few {
			t.Errorf("%d decisions about %d copies", n, few)
		}
	})
}

// So it is where several rules give an object different names: of an edit of one, only the places that it gives up and takes are looked at.
func TestEditIsAboutItsOwnPlaces(t *testing.T) {
	inWorld(t, func(w *world) {
		const objects, rules = 20, 10
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
		}
		name := func(i int, version string) *v1alpha1.ResourceSyncRule {
			return moving(testRule(fmt.Sprint("r", i)), "name", fmt.Sprint("to-", i, version, "-{{ .Object.GetName }}"))
		}
		for i := range rules {
			w.setRule(name(i, "a"))
		}
		w.settle()
		decided := w.decisions()
		w.setRule(name(3, "b"))
		w.settle()
		w.wantValue(cm("to-3b-x0"), "1")
		w.wantOwner(cm("to-3a-x0"), a, true)
		if n := w.decisions() - decided; n > 6*objects {
			t.Errorf("%d decisions about %d places", n, 2*objects)
		}
	})
}

// Edits of rules, which somebody may make all the time, are looked at for a part of the time alone. Until then a rule does not say that it is in effect as it is now, and no other
// change waits.
func TestEditsWaitForARest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[a].put(configMap("x", "1"))
		w.setRule(testRule("r"))
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.e.mu.Lock()
		w.e.supervisor.rest = time.Now().Add(staleRestCap)
		w.e.mu.Unlock()
		edited := testRule("r")
		edited.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{Path: "/data/v", Value: "2"}}
		w.setRule(edited)
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.wantValue(cm("y"), "2")
		w.wantValue(cm("x"), "1")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonProgressing)
		time.Sleep(staleRestCap)
		w.settle()
		w.wantValue(cm("x"), "2")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// A create waits for an origin that comes first and was asked just now, and is made as soon as that one said no.
func TestFirstOriginIsAwaited(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[b].put(configMap("x", "b"))
		w.peers[a].put(configMap("x", "a"))
		w.peers[b].put(configMap("y", "b"))
		w.peers[a].slow = 300 * time.Millisecond
		w.setRule(testRule("r"))
		time.Sleep(200 * time.Millisecond)
		w.now()
		w.wantGone(cm("x"))
		w.wantGone(cm("y"))
		time.Sleep(100 * time.Millisecond)
		w.now()
		w.wantValue(cm("x"), "a")
		w.wantValue(cm("y"), "b")
		w.checkIndexes()
	})
}

// A watch may tell of a write before its answer is there. What it tells is nothing new then, unless it is.
func TestEventBeforeTheAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.late = 10 * time.Millisecond
		k := cm("x")
		w.setRule(testRule("r"))
		w.settle()
		for i, value := range []string{"1", "2", "3"} {
			decided := w.decisions()
			w.peers[a].put(configMap("x", value))
			w.settle()
			if n := w.decisions() - decided; n != 1 {
				t.Errorf("%d decisions about value %s, want 1", n, value)
			}
			w.wantValue(k, value)
			if n := w.local.writes(); n != i+1 {
				t.Errorf("%d writes, want %d", n, i+1)
			}
		}
		w.peers[a].put(configMap("x", "4"))
		time.Sleep(w.local.late / 2)
		w.local.edit(k, func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "somebody's"} })
		w.settle()
		w.wantValue(k, "4")
		w.peers[a].put(configMap("x", "5"))
		time.Sleep(w.local.late / 2)
		w.local.remove(k)
		w.settle()
		w.wantValue(k, "5")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// What happens to a copy and its source between a write and its answer, in whatever order it is told, is made good, and
// then there is rest.
func TestMuchBeforeTheAnswer(t *testing.T) {
	k, half := cm("x"), 5*time.Millisecond
	touch := func(w *world) {
		w.local.edit(k, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/touched"}) })
	}
	damage := func(w *world) {
		w.local.edit(k, func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "somebody's"} })
	}
	source := func(values ...string) func(*world) {
		return func(w *world) {
			for _, value := range values {
				w.peers[a].put(configMap("x", value))
				time.Sleep(time.Microsecond)
			}
		}
	}
	remove := func(w *world) { w.local.remove(k) }
	list := func(w *world) {
		w.local.cut(errors.New("cut"))
		time.Sleep(time.Microsecond)
		w.local.cut(nil)
	}
	for name, c := range map[string]struct {
		admitted, before []func(*world)
		want             string
	}{
		"touched after the source changed":          {before: []func(*world){source("3"), touch}, want: "3"},
		"damaged after the source changed and back": {before: []func(*world){source("3", "2"), damage}, want: "2"},
		"deleted after the source changed and back": {before: []func(*world){source("3", "2"), remove}, want: "2"},
		"deleted, and the source changed before":    {admitted: []func(*world){source("3", "2")}, before: []func(*world){remove}, want: "2"},
		"deleted, and listed":                       {before: []func(*world){remove, list}, want: "2"},
		"damaged, and listed":                       {before: []func(*world){damage, list}, want: "2"},
		"listed, and deleted":                       {before: []func(*world){list, remove}, want: "2"},
		"deleted and made by somebody":              {before: []func(*world){remove, func(w *world) { w.local.put(configMap("x", "theirs")) }}, want: "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.setRule(testRule("r"))
				w.peers[a].put(configMap("x", "1"))
				w.settle()
				w.local.late = 2 * half
				admitting := true
				w.local.admits(func(*unstructured.Unstructured) error {
					if admitting {
						admitting = false
						for _, do := range c.admitted {
							do(w)
						}
					}
					return nil
				})
				w.peers[a].put(configMap("x", "2"))
				time.Sleep(half)
				for _, do := range c.before {
					do(w)
					time.Sleep(time.Microsecond)
				}
				w.settle()
				w.wantValue(k, c.want)
				writes := w.local.writes()
				time.Sleep(10 * time.Minute)
				w.settle()
				w.wantValue(k, c.want)
				if n := w.local.writes() - writes; n > 0 {
					t.Errorf("%d writes when nothing changed any more", n)
				}
			})
		})
	}
}

func (w *world) decisions() int {
	r := prometheus.NewRegistry()
	r.MustRegister(w.e.metrics.Decisions)
	all, err := r.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	return int(all[0].GetMetric()[0].GetCounter().GetValue())
}
