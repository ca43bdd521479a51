// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/fanout"
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

// unavailable has all requests fail, while watches go on; with nil they succeed again.
func (s *server) unavailable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)

		w.peers[a].cut(errUnavailable())
		w.settle()
		w.peers[a].remove(cm("x"))
		w.settle()
		w.peers[a].cut(nil) // a list lacks it
		w.settle()
		w.wantSix()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
	})
}

// An edit of a source lifts no stop that is because of namespaces, not for a moment: all is as it was before and after.
func TestAnEditOfTheSourceDoesNotLiftTheGuard(t *testing.T) {
	inSix(t, func(w *world) {
		w.restart(func() { w.labelMany("n", 6, nil) })
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		before := w.decisions()
		for i := range 20 {
			w.setSource(fmt.Sprint("v", i))
			w.settle()
		}
		if n := w.decisions() - before; n > 20*6 { // those of the copies of what was edited
			t.Errorf("%d decisions", n)
		}
		w.wantSix()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)

		w.e.mu.Lock()
		w.e.supervisor.wake = make(chan struct{}, 1) // supervision is late
		w.e.mu.Unlock()
		w.setSource("late")
		w.now()
		w.e.mu.Lock()
		stopped := w.e.rules.byName["r"].guard.Stopped()
		for i := range 6 {
			w.e.queue.EnqueueLocked(in(fmt.Sprintf("n%02d", i), "x"))
		}
		w.e.mu.Unlock()
		time.Sleep(time.Second)
		if w.wantSix(); !stopped {
			t.Error("the rule is not stopped any more")
		}
	})
}

// A confirmation is used up by what it allows, not by an edit of the source.
func TestAnEditOfTheSourceUsesUpNoConfirmation(t *testing.T) {
	inSix(t, func(w *world) {
		w.restart(func() { w.labelMany("n", 6, nil) })
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.local.unavailable(errUnavailable())
		confirmed := spreading(testRule("r"))
		confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "6"}
		w.setRule(confirmed)
		w.settle()
		w.setSource("2")
		w.settle()
		w.local.cutNamespaces(errUnavailable())
		w.settle()
		w.local.cutNamespaces(nil) // all are counted again
		w.settle()
		w.wantSix()
		w.local.unavailable(nil)
		time.Sleep(time.Minute)
		w.settle()
		w.wantCopies()
	})
}

// Labels that are taken away while a rule is paused are as much proof as at any other time.
func TestLabelsTakenAwayDuringAPauseAreProof(t *testing.T) {
	inSix(t, func(w *world) {
		w.setRule(paused(spreading(testRule("r"))))
		w.settle()
		w.labelMany("n", 6, nil)
		w.settle()
		w.wantSix()
		w.setRule(spreading(testRule("r")))
		w.settle()
		w.wantCopies()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.checkIndexes()
	})
}

// Copies may be known before their namespaces, after a restore: they are left alone until then, and are counted when it turns
// out that their namespaces do not match.
func TestCopiesAreKnownBeforeTheirNamespaces(t *testing.T) {
	inSix(t, func(w *world) {
		w.local.unavailable(errUnavailable())
		for i := range 6 {
			w.local.remove(namespaceNamed(fmt.Sprintf("n%02d", i)))
		}
		w.settle()
		w.labelMany("n", 6, nil)
		w.settle()
		w.local.unavailable(nil)
		time.Sleep(time.Minute)
		w.settle()
		w.wantSix()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.labelMany("n", 5, pulls())
		w.settle()
		w.wantCopies("x", "x", "x", "x", "x")
		w.wantGone(in("n05", "x"))
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.checkIndexes()
	})
}

// What Kubernetes makes in each namespace is never a copy: in a new namespace the copy would come first.
func TestFanOutIntoThePlaceOfWhatKubernetesMakes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(moving(spreading(testRule("r")), "name", "kube-root-ca.crt"))
		w.peers[a].put(configMap("x", "another CA"))
		w.settle()
		w.label("new", pulls())
		w.settle()
		w.wantGone(in("new", "kube-root-ca.crt"))
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConsentRequired)
	})
}

// An object that grows is too much in many namespaces although it is one alone.
func TestFanOutIsBoundedInBytes(t *testing.T) {
	inSix(t, func(w *world) {
		w.setSource(strings.Repeat("v", fanout.MaxBytes/6))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonTooManyCopies)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "would make copies of 128 MiB, of 1 objects with 21845 KiB in 6 namespaces each") {
			t.Errorf("message %q", m)
		}
		w.wantValue(in("n00", "x"), "1")
		w.setSource("2")
		w.settle()
		w.wantValue(in("n00", "x"), "2")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.checkIndexes()
	})
}

// reason is why the copy at a place, of cluster a, stays or goes.
func (w *world) reason(k Key) string {
	w.t.Helper()
	w.e.mu.Lock()
	j := w.e.gatherLocked(k)
	w.e.mu.Unlock()
	weighed, err := w.e.weigh(j)
	if err != nil || len(weighed.Claims) != 1 {
		w.t.Fatalf("%d claims, %v", len(weighed.Claims), err)
	}
	return weighed.Claims[0].Reason
}

// What is not known is told as that, not as what was known last.
func TestWhyACopyInANamespaceStays(t *testing.T) {
	inSix(t, func(w *world) {
		want := func(text string) {
			t.Helper()
			w.settle()
			if got := w.reason(in("n00", "x")); got != text {
				t.Errorf("it says %q, want %q", got, text)
			}
		}
		w.local.unavailable(errUnavailable())
		w.labelMany("n", 6, nil)
		want("rule r: spec.targetNamespaces (pull=yes) does not select namespace n00, which has no label pull")
		w.local.cutNamespaces(errUnavailable())
		want("the labels that namespace n00 has by now are not known")
		w.local.cutNamespaces(nil)
		w.peers[a].cut(errUnavailable())
		want("what cluster " + a + " has is not known now")
		w.local.remove(namespaceNamed("n00"))
		want("the labels of namespace n00 are not known")
		w.wantSix()
	})
}
