// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// adopting is a rule that takes over what is there, and deletes all that it may.
func adopting(name string) *v1alpha1.ResourceSyncRule {
	r := testRule(name)
	r.Spec.ConflictPolicy, r.Spec.RuleDeletionPolicy = v1alpha1.ConflictAdopt, v1alpha1.DeletionDelete
	return r
}

// consenting is an object that also the rule selects: consent is for copies of cluster a.
func consenting(name, value, rule string) *unstructured.Unstructured {
	return withAnnotations(configMap(name, value), map[string]string{v1alpha1.AnnotationAdopt: rule + "@" + a})
}

// consent lets a rule adopt what is here.
func (w *world) consent(k Key, rule string) {
	w.local.edit(k, func(o *unstructured.Unstructured) {
		withAnnotations(o, map[string]string{v1alpha1.AnnotationAdopt: rule + "@" + a})
	})
}

// An object is adopted once its annotation names the rule, and follows its source from then on. It is never deleted: not
// when its source is, nor its rule.
func TestAdopt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(configMap("x", "mine"))
		w.local.put(consenting("y", "mine", "r"))
		w.local.put(consenting("same", "1", "r"))
		for _, name := range []string{"x", "y", "same", "new"} {
			w.peers[a].put(configMap(name, "1"))
		}
		w.setRule(adopting("r"))
		w.settle()
		w.wantValue(cm("x"), "mine")
		w.wantOwner(cm("x"), "", false)
		for _, name := range []string{"y", "same", "new"} {
			w.wantValue(cm(name), "1")
			w.wantOwner(cm(name), a, false)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		w.consent(cm("x"), "r")
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantOwner(cm("x"), a, false)
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)

		w.restart(func() {
			w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		})
		w.wantValue(cm("x"), "2")
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantOwner(cm("x"), a, true)
		w.peers[a].put(configMap("x", "3")) // it is taken back
		w.settle()
		w.wantValue(cm("x"), "3")

		w.e.DeleteRule("r")
		delete(w.rules, "r")
		w.settle()
		w.wantCopies("same", "x", "y")
		w.wantOwner(cm("y"), a, true)
	})
}

// Nothing is adopted that somebody else keeps as it is, or that is another rule's or cluster's copy.
func TestAdoptLeavesWhatIsOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		yes := true
		owned := consenting("owned", "mine", "r")
		owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u", Controller: &yes}})
		helm := consenting("helm", "mine", "r")
		helm.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
		w.local.put(owned)
		w.local.put(helm)
		w.local.put(consenting("shared", "mine", "r"))
		for _, name := range []string{"owned", "helm", "shared"} {
			w.peers[a].put(configMap(name, "1"))
		}
		w.peers[b].put(configMap("owned", "b"))
		w.setRule(testRule("s", "shared")) // it does not adopt
		w.settle()
		w.setRule(adopting("r"))
		w.settle()
		for _, name := range []string{"owned", "helm", "shared"} {
			w.wantValue(cm(name), "mine")
			w.wantOwner(cm(name), "", false)
		}
		if n := w.local.count("update"); n > 0 {
			t.Errorf("%d updates", n)
		}
		// A copy of another cluster keeps its owner.
		w.peers[b].put(configMap("z", "b"))
		w.settle()
		w.peers[a].put(configMap("z", "1"))
		w.consent(cm("z"), "r")
		w.settle()
		w.wantValue(cm("z"), "b")
		w.wantOwner(cm("z"), b, false)
	})
}

// A rule that only looks says what it would adopt, and adopts nothing.
func TestObserveWhatWouldBeAdopted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(consenting("x", "mine", "r"))
		w.peers[a].put(configMap("x", "1"))
		w.unwritten(func() { w.setRule(observing(adopting("r"))) })
		w.wantDrift("r", 1, 0, 1, metav1.ConditionTrue, "Differs", cm("x").String()+" differs")
		w.setRule(adopting("r"))
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

// A source that is adopted, and so is none any more, takes no copy of it away: they become those of the cluster that has the
// source now.
func TestAdoptedSourceKeepsItsCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(adopting("r"))
		w.peers[b].put(configMap("x", "b"))
		w.settle()
		w.wantOwner(cm("x"), b, false)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantOwner(cm("x"), b, false)
		w.peers[b].edit(cm("x"), func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: a})
		})
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantOwner(cm("x"), a, false)
		if n := w.local.count("delete"); n > 0 {
			t.Errorf("%d deletions", n)
		}
	})
}

// That an object does not consent is remembered, as any conflict is: it is not read again for each cluster that offers the same.
func TestAdoptReadsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(configMap("x", "mine"))
		w.peers[a].put(configMap("x", "1"))
		w.setRule(adopting("r"))
		w.settle()
		reads := w.local.count("read")
		said := w.report("r").LastErrors
		for range 5 {
			w.peers[b].put(configMap("x", "1"))
			w.settle()
			w.peers[b].remove(cm("x"))
			w.settle()
		}
		if more := w.local.count("read") - reads; more > 0 {
			t.Errorf("%d reads of what does not change", more)
		}
		if now := w.report("r").LastErrors; !slices.Equal(said, now) || len(now) != 1 || !strings.Contains(now[0], "does not adopt it") {
			t.Errorf("the rule says %q, and said %q", now, said)
		}
		w.consent(cm("x"), "r")
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}
