// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func TestFanOutObservesAndAdopts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.labelMany("n", 3, pulls())
		mine := configMap("x", "mine")
		mine.SetNamespace("n01")
		w.local.put(mine)
		w.peers[a].put(configMap("x", "1"))
		w.unwritten(func() {
			w.setRule(observing(spreading(adopting("r"))))
			w.settle()
			w.wantDrift("r", 3, 0, 2, metav1.ConditionTrue, "Missing", "ConfigMap n00/x", "ConfigMap n01/x", "ConfigMap n02/x")
		})
		w.setRule(spreading(adopting("r")))
		w.settle()
		w.wantValue(in("n00", "x"), "1")
		w.wantValue(in("n01", "x"), "mine")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		w.consent(in("n01", "x"), "r")
		w.settle()
		w.wantValue(in("n01", "x"), "1")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.labelMany("n", 2, nil)
		w.settle()
		w.wantGone(in("n00", "x"))
		w.wantOwner(in("n01", "x"), a, true) // no agent has made it
		w.unwritten(func() {
			w.setRule(observing(spreading(adopting("r"))))
			w.settle()
			w.labelMany("n", 3, nil)
		})
		w.wantOwner(in("n02", "x"), a, false)
	})
}

// Rules with one place for their copy make it together, also where only one of them selects namespaces.
func TestFanOutBesideOtherRules(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("team", pulls())
		labelled := spreading(testRule("a"))
		labelled.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"by": "a"}}
		w.setRule(labelled)
		w.setRule(moving(testRule("b"), "namespace", "team"))
		w.setRule(testRule("home"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		made := w.local.find(inTeam("x"))
		if made == nil || made.GetLabels()["by"] != "a" || made.GetAnnotations()[v1alpha1.AnnotationRule] != "a,b" {
			t.Errorf("the copy is %v", made)
		}
		w.wantValue(cm("x"), "1")
		w.label("team", nil)
		w.settle()
		if made = w.local.find(inTeam("x")); made == nil || made.GetLabels()["by"] != "" || made.GetAnnotations()[v1alpha1.AnnotationRule] != "b" {
			t.Errorf("the copy is %v", made)
		}
		w.peers[b].put(configMap("x", "2")) // the first keeps both
		w.label("team", pulls())
		w.settle()
		w.wantValue(inTeam("x"), "1")
		w.wantReady("a", metav1.ConditionFalse, problem.ReasonConflict)
		w.checkIndexes()
	})
}

// Another set of rules for an entry, with the same places, is another count.
func TestFanOutIsCountedByRule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("one", pulls())
		w.setRule(spreading(testRule("a")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.setRule(spreading(testRule("b")))
		w.settle()
		w.e.DeleteRule("a")
		w.settle()
		w.checkIndexes()
		w.label("two", pulls())
		w.settle()
		w.wantValue(in("two", "x"), "1")
		made := maps.Clone(w.local.find(in("two", "x")).GetAnnotations())
		if made[v1alpha1.AnnotationRule] != "b" {
			t.Errorf("made by %v", made)
		}
	})
}
