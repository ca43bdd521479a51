// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// TestChaosOfMovingRules is TestChaos with rules that put copies of the same sources into another namespace, and
// all of them into one place of another kind, which the rule is edited to change. Since the rule deletes what it
// lets go of, there is nothing left in the end that its owner does not have.
func TestChaosOfMovingRules(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 1))
				w.setRule(moving(testRule("team"), "namespace", "team"))
				w.setRule(chaosRule("one"))
				w.settle()
				name := "one"
				for range 40 {
					if r.IntN(8) == 0 {
						name = []string{"one", "two"}[r.IntN(2)]
						w.setRule(chaosRule(name))
					}
					if r.IntN(4) == 0 {
						w.tamper(r)
					}
					w.disturb(r, map[string]string{"x": "", "y": "", "z": ""})
				}
				for _, s := range w.peers {
					s.cut(nil)
				}
				w.local.cut(nil)
				time.Sleep(2 * time.Minute)
				w.settle()
				w.checkMoved(name)
			})
		})
	}
}

func chaosRule(name string) *v1alpha1.ResourceSyncRule {
	r := toKind(moving(testRule("one"), "name", name), "Thing")
	r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
	return r
}

// tamper changes or deletes a copy.
func (w *world) tamper(r *rand.Rand) {
	k := []Key{inTeam("x"), inTeam("y"), thing("Thing", "default", "one"), thing("Thing", "default", "two")}[r.IntN(4)]
	have := w.local.find(k)
	switch {
	case have == nil || !syncrules.IsCopy(have):
	case r.IntN(3) == 0:
		w.local.remove(k)
	case r.IntN(2) == 0:
		w.local.edit(k, func(o *unstructured.Unstructured) {
			withAnnotations(o, map[string]string{v1alpha1.AnnotationOriginalKey: "default/" + []string{"x", "y", "none"}[r.IntN(3)]})
		})
	default:
		w.local.edit(k, func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "tampered", "data", "v") })
	}
}

func inTeam(name string) Key {
	k := cm(name)
	k.Namespace = "team"
	return k
}

func (w *world) checkMoved(name string) {
	w.t.Helper()
	defer w.checkIndexes()
	for id, s := range w.peers {
		w.e.SetPeer(Peer{ClusterID: id, Source: s, FeaturesKnown: true})
	}
	w.settle()
	offered := false
	for _, n := range []string{"x", "y", "z"} {
		here := false
		for _, s := range w.peers {
			here = here || s.find(cm(n)) != nil
		}
		offered = offered || here
		w.checkCopy(inTeam(n), here)
	}
	w.checkCopy(thing("Thing", "default", name), offered)
	other := map[string]string{"one": "two", "two": "one"}[name]
	w.wantGone(thing("Thing", "default", other))
}

// checkCopy wants a copy to be there, and to be what its owner has in the place that it was made from.
func (w *world) checkCopy(k Key, there bool) {
	w.t.Helper()
	have := w.local.find(k)
	if have == nil || !there {
		if there != (have != nil) {
			w.t.Errorf("%s: is there: %t, want %t", k, have != nil, there)
		}
		return
	}
	from := syncrules.Source(have)
	source := w.peers[syncrules.Owner(have)].find(Key{GroupKind: from.GroupKind(), Namespace: from.Namespace, Name: from.Name})
	if source == nil || syncrules.Orphaned(have) {
		w.t.Errorf("%s: its owner has %v, the copy is %v", k, source, have.Object)
		return
	}
	value, _, _ := unstructured.NestedString(source.Object, "data", "v")
	w.wantValue(k, value)
}
