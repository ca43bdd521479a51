// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// The engine's part of PARITY C1, C2, C3, C20 and C21.

// While the owner is away, that another cluster lacks the object, or has a copy of it that is not the same, means
// nothing.
func TestOwnerIsAwayAndOthersHaveNothingToSay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.setRule(testRule("of-something-else", "nothing"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.peers[a].cut(errUnavailable())
		tampered := w.local.find(cm("y"))
		_ = unstructured.SetNestedField(tampered.Object, "tampered there", "data", "v")
		w.peers[b].put(tampered) // b has the copy too, and somebody changed it
		w.settle()
		writes := w.local.writes()
		for range 3 {
			w.restart(func() {})
			time.Sleep(10 * time.Minute)
		}
		w.wantOwner(cm("x"), a, false)
		w.wantValue(cm("x"), "1")
		w.wantValue(cm("y"), "1")
		if n := w.local.writes() - writes; n > 0 {
			t.Errorf("%d writes while the owner is away", n)
		}
	})
}

// A copy that was changed while nothing is known of its owner's object stays as it is, and is put right when the
// owner is back.
func TestTamperedCopyOfAnOwnerThatIsNotKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.restart(func() {
			w.peers[a].cut(errUnavailable())
			tamper := func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "tampered", "data", "v") }
			w.peers[b].put(w.local.find(cm("x")))
			w.peers[b].edit(cm("x"), tamper)
			w.local.edit(cm("x"), tamper)
		})
		w.wantValue(cm("x"), "tampered")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceUnreachable)
		w.peers[a].cut(nil)
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

func TestSourceStopsMatchingWhileAway(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Labels = []metav1.LabelSelector{{MatchLabels: map[string]string{"l": "v"}}}
		w.setRule(r)
		w.peers[a].put(labelled(configMap("x", "1"), "l", "v"))
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.restart(func() { w.peers[a].put(configMap("x", "1")) })
		w.wantGone(cm("x"))
	})
}

// Of a name that was born in two clusters, every third one takes the same one, whichever it hears of first, and
// keeps it.
func TestBornInTwoClusters(t *testing.T) {
	for _, first := range []string{a, b} {
		t.Run(first, func(t *testing.T) {
			inWorld(t, func(w *world) {
				for id, s := range w.peers {
					s.put(configMap("x", "of "+id))
					if id != first {
						s.slow = settleTime / 2
					}
				}
				w.setRule(testRule("r"))
				w.settle()
				w.wantOwner(cm("x"), a, false)
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
				writes := w.local.writes()
				for id, s := range w.peers { // each in turn comes and goes
					s.slow = 0
					s.cut(errUnavailable())
					w.settle()
					w.e.SetPeer(Peer{ClusterID: id, Why: "no connection"})
					w.settle()
					w.e.SetPeer(Peer{ClusterID: id, Source: s, FeaturesKnown: true})
					s.cut(nil)
					w.restart(func() {})
				}
				w.wantOwner(cm("x"), a, false)
				if n := w.local.writes() - writes; n > 0 {
					t.Errorf("%d writes: the copy changes hands", n)
				}
			})
		})
	}
}

// In the clusters that it was born in it stays what it is, and that is reported.
func TestBornHereAndElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(configMap("x", "mine"))
		copied := configMap("y", "theirs, which they have from here")
		copied.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: here})
		w.peers[a].put(withAnnotations(copied, map[string]string{v1alpha1.AnnotationOwnerClusterID: here}))
		w.peers[a].put(configMap("x", "theirs"))
		w.setRule(testRule("r"))
		w.restart(func() {})
		w.wantValue(cm("x"), "mine")
		w.wantGone(cm("y"))
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		if syncrules.IsCopy(w.local.find(cm("x"))) || w.local.count("update")+w.local.count("delete") > 0 {
			t.Errorf("requests %v", w.local.requests)
		}
	})
}
