// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// paused is the rule, paused.
func paused(r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
	r.Spec.Paused = true
	return r
}

// inSix runs a test with a rule that has made a copy in each of six namespaces.
func inSix(t *testing.T, f func(w *world)) {
	inWorld(t, func(w *world) {
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.labelMany("n", 6, pulls())
		w.settle()
		w.wantSix()
		f(w)
	})
}

func (w *world) wantSix() {
	w.t.Helper()
	w.wantCopies("x", "x", "x", "x", "x", "x")
}

// setSource gives the source another content.
func (w *world) setSource(v string) {
	w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": v} })
}

// That a source was deleted is proof of nothing once it was there again, also for namespaces that were not selected then.
func TestDeletionIsNoProofOnceTheSourceWasBack(t *testing.T) {
	inSix(t, func(w *world) {
		w.setRule(paused(spreading(testRule("r"))))
		w.settle()
		w.peers[a].remove(cm("x"))
		w.settle()
		w.labelMany("n", 6, nil)
		w.settle()
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.labelMany("n", 6, pulls())
		w.settle()
		w.setRule(spreading(testRule("r")))
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)

		w.peers[a].cut(errUnavailable())
		w.settle()
		w.peers[a].remove(cm("x"))
		w.settle()
		w.peers[a].cut(nil) // a list lacks it
		w.settle()
		w.wantSix()
		w.wantReady("r", metav1.ConditionFalse, ReasonDeletionGuard)
	})
}
