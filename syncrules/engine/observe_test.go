// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func observing(r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
	r = r.DeepCopy()
	r.Spec.Mode = v1alpha1.ModeObserve
	return r
}

// wantDrift compares what a rule that only looks says; texts are the beginnings of its last errors, in any order.
func (w *world) wantDrift(rule string, matched, synced, drifted int32, status metav1.ConditionStatus, reason string, texts ...string) {
	w.t.Helper()
	r := w.report(rule)
	if r.Matched != matched || r.Synced != synced || r.Drifted != drifted {
		w.t.Errorf("rule %s: matched %d, synced %d, drifted %d; want %d, %d, %d", rule, r.Matched, r.Synced, r.Drifted, matched, synced, drifted)
	}
	c := meta.FindStatusCondition(r.Conditions, ConditionDrifted)
	if c == nil || c.Status != status || c.Reason != reason {
		w.t.Errorf("rule %s: %+v; want Drifted=%s %s", rule, c, status, reason)
	}
	if len(r.LastErrors) != len(texts) {
		w.t.Errorf("rule %s says %q", rule, r.LastErrors)
	}
	for _, text := range texts {
		if !slices.ContainsFunc(r.LastErrors, func(s string) bool { return strings.HasPrefix(s, text) }) {
			w.t.Errorf("rule %s says %q, not %q", rule, r.LastErrors, text)
		}
	}
}

// unwritten runs f, which must not make the engine write.
func (w *world) unwritten(f func()) {
	w.t.Helper()
	before := w.local.writes()
	f()
	w.settle()
	if n := w.local.writes() - before; n > 0 {
		w.t.Errorf("%d writes by a rule that only looks", n)
	}
	w.checkIndexes()
}

// A new rule that only looks tells what is missing, and follows what people do about it by hand.
func TestObserveANewRule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.unwritten(func() {
			w.peers[a].put(configMap("x", "1"))
			w.peers[a].put(configMap("y", "1"))
			w.local.put(configMap("y", "1"))
			w.setRule(observing(testRule("r")))
		})
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonObserving)
		w.wantDrift("r", 2, 1, 1, metav1.ConditionTrue, "Missing", cm("x").String()+" is missing")

		w.unwritten(func() { w.local.put(configMap("x", "1")) })
		w.wantDrift("r", 2, 2, 0, metav1.ConditionFalse, "NoDrift")
		w.unwritten(func() {
			w.local.edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		})
		w.wantReady("r", metav1.ConditionFalse, "Conflict")
		w.unwritten(func() { w.local.remove(cm("x")) })
		w.wantDrift("r", 2, 1, 1, metav1.ConditionTrue, "Missing", cm("x").String()+" is missing")

		decided := w.decisions()
		w.settle()
		if n := w.decisions() - decided; n > 0 {
			t.Errorf("%d decisions while nothing changes", n)
		}
		w.setRule(testRule("r"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if r := w.report("r"); r.Drifted != 0 || r.Matched != 2 || r.Synced != 2 || len(r.Conditions) != 1 {
			t.Errorf("the rule that writes again reports %+v", r)
		}
	})
}

// A rule that copies and then only looks keeps its copies, whatever becomes of their sources and of the rule; then it goes on.
func TestObserveAfterCopying(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"differs", "extra", "same"} {
			w.peers[a].put(configMap(name, "1"))
		}
		r := testRule("r")
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(r)
		w.settle()
		w.wantCopies("differs", "extra", "same")
		w.unwritten(func() { w.setRule(observing(r)) })
		w.wantDrift("r", 3, 3, 0, metav1.ConditionFalse, "NoDrift")

		drifted := func() {
			t.Helper()
			w.wantDrift("r", 3, 1, 3, metav1.ConditionTrue, "Differs",
				cm("differs").String()+" differs", cm("extra").String()+" would be deleted: its source is gone", cm("missing").String()+" is missing")
		}
		w.unwritten(func() {
			w.peers[a].edit(cm("differs"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
			w.peers[a].remove(cm("extra"))
			w.peers[a].put(configMap("missing", "1"))
		})
		drifted()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonObserving)
		w.unwritten(func() { w.restart(func() {}) })
		drifted()

		w.unwritten(func() {
			narrow := observing(r)
			narrow.Spec.Rules[0].Matches[0].Namespaces = []string{"team"}
			narrow.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "core"}}}
			w.setRule(narrow)
		})
		w.wantCopies("differs", "extra", "same")

		w.setRule(r)
		w.settle()
		w.wantCopies("differs", "missing", "same")
		w.wantValue(cm("differs"), "2")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// A rule that only looks does not change what others do.
func TestObserveBesideAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		labels := testRule("z", "x")
		labels.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"team": "blue"}}
		w.setRule(testRule("r"))
		w.setRule(observing(labels))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.wantCopies("x", "y")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantDrift("z", 1, 0, 1, metav1.ConditionTrue, "Differs", cm("x").String()+" differs")
		if r := w.report("r"); r.Matched != 2 || r.Synced != 2 || r.Drifted != 0 {
			t.Errorf("the rule that writes reports %+v", r)
		}
		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		w.settle()
		w.wantValue(cm("x"), "2")

		// One that made a copy holds it, also against those that made it together with it.
		write := labels.DeepCopy()
		w.setRule(write)
		w.settle()
		w.wantReady("z", metav1.ConditionTrue, problem.ReasonSynced)
		w.unwritten(func() {
			w.setRule(observing(labels))
			w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "3"} })
		})
		w.wantValue(cm("x"), "2")
		w.wantDrift("z", 1, 0, 1, metav1.ConditionTrue, "Differs", cm("x").String()+" differs")
	})
}

// Of very many objects all are counted, and a few are named.
func TestObserveIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.unwritten(func() {
			for i := range 200 {
				w.peers[a].put(configMap(fmt.Sprintf("x%d", i), "1"))
			}
			w.setRule(observing(testRule("r")))
		})
		if r := w.report("r"); r.Drifted != 200 || len(r.LastErrors) != 16 {
			t.Errorf("drifted %d, and %d are named", r.Drifted, len(r.LastErrors))
		}
		// All are watched in one scope, so that nothing is asked for again and again.
		w.unwritten(func() { w.local.put(configMap("x7", "1")) })
		if r := w.report("r"); r.Drifted != 199 || r.Synced != 1 {
			t.Errorf("drifted %d, synced %d after one was made", r.Drifted, r.Synced)
		}
	})
}

// The guard of a rule that only looks stops nothing. When the rule writes again, it does.
func TestObserveAndGuard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 5 {
			w.peers[a].put(configMap(fmt.Sprintf("x%d", i), "1"))
		}
		w.settle()
		w.unwritten(func() {
			w.setRule(observing(testRule("r")))
			w.restart(func() {
				for i := range 5 {
					w.peers[a].remove(cm(fmt.Sprintf("x%d", i)))
				}
			})
		})
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonObserving)
		if r := w.report("r"); r.Drifted != 5 {
			t.Errorf("drifted %d", r.Drifted)
		}
		w.unwritten(func() { w.setRule(testRule("r")) })
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
	})
}

// Copies that only such a rule made stay as they are when their owner leaves the group, also where another rule offers the same.
func TestObserveWhenTheOwnerLeaves(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"x", "y"} {
			w.peers[a].put(configMap(name, "1"))
		}
		w.setRule(testRule("r"))
		w.settle()
		w.unwritten(func() { w.setRule(observing(testRule("r"))) })
		w.setRule(testRule("s", "y"))
		w.peers[b].put(configMap("y", "1"))
		w.settle()
		w.unwritten(func() { w.e.SetPeer(Peer{ClusterID: a, Left: true}) })
		w.wantOwner(cm("x"), a, false)
		w.wantOwner(cm("y"), a, false)
	})
}

// That copies would be deleted with a rule that says otherwise by now is told: while the rule looks, it cannot be changed.
func TestObserveTellsWhatIsDeletedWithTheRule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[a].put(configMap("x", "1"))
		r := testRule("r")
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(r)
		w.settle()
		w.unwritten(func() { w.setRule(observing(testRule("r"))) })
		w.wantDrift("r", 1, 0, 1, metav1.ConditionTrue, "RuleDeletionPolicy", cm("x").String()+" still carries ruleDeletionPolicy Delete")
		w.setRule(testRule("r"))
		w.settle()
		w.setRule(observing(testRule("r")))
		w.settle()
		w.wantDrift("r", 1, 1, 0, metav1.ConditionFalse, "NoDrift")
	})
}

// That nothing is in a place is remembered while it is watched, whatever becomes of the source.
func TestObserveReadsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[a].put(configMap("x", "1"))
		w.setRule(observing(testRule("r")))
		w.settle()
		reads := w.local.count("read")
		for i := range 5 {
			w.peers[a].put(configMap("x", fmt.Sprint(i)))
			w.settle()
		}
		if more := w.local.count("read") - reads; more > 0 {
			t.Errorf("%d reads of what is not there", more)
		}
		w.wantDrift("r", 1, 0, 1, metav1.ConditionTrue, "Missing", cm("x").String()+" is missing")
		w.unwritten(func() { w.local.put(configMap("x", "4")) })
		w.wantDrift("r", 1, 1, 0, metav1.ConditionFalse, "NoDrift")
	})
}

// What appears without the label that the rule selects by is seen, also where no object is watched for itself.
func TestObserveSeesWhatIsNotSelected(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Labels = []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "web"}}}
		for i := range 3 * conflicts.MaxObjectWatches {
			obj := configMap(fmt.Sprintf("x%d", i), "1")
			obj.SetLabels(map[string]string{"app": "web"})
			w.peers[a].put(obj)
		}
		w.setRule(observing(r))
		w.settle()
		time.Sleep(2 * conflicts.Retry)
		for i := range 3 * conflicts.MaxObjectWatches {
			w.local.put(configMap(fmt.Sprintf("x%d", i), "mine"))
		}
		time.Sleep(2 * conflicts.Retry)
		if r := w.report("r"); r.Drifted != 0 || r.Conflicts != 3*conflicts.MaxObjectWatches {
			t.Errorf("drifted %d, conflicts %d", r.Drifted, r.Conflicts)
		}
	})
}
