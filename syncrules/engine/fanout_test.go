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
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/fanout"
)

// spreading makes copies in each namespace with the label pull=yes.
func spreading(r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
	r.Spec.TargetNamespaces = &v1alpha1.NamespaceSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"pull": "yes"}}}
	return r
}

// label makes a namespace, or changes one, to have the labels.
func (w *world) label(name string, labels map[string]string) {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	obj.SetLabels(labels)
	w.local.put(obj)
}

func (w *world) labelMany(name string, n int, labels map[string]string) {
	for i := range n {
		w.label(fmt.Sprintf("%s%02d", name, i), labels)
	}
}

func pulls() map[string]string { return map[string]string{"pull": "yes"} }

// in is the place of the copy of a ConfigMap in a namespace.
func in(namespace, name string) Key {
	k := cm(name)
	k.Namespace = namespace
	return k
}

// cutNamespaces ends the watches of namespaces, with nil it lets them go on.
func (s *server) cutNamespaces(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unserved = map[string]bool{"Namespace": err != nil}
	for w := range s.watches {
		switch {
		case w.scope.GVK.Kind != "Namespace":
		case err == nil:
			w.list(s)
		default:
			w.live = false
			w.later(func() { w.sink.Health(err) })
		}
	}
}

func (s *server) watchesOf(kind string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.scope.GVK.Kind == kind {
			n++
		}
	}
	return n
}

func TestFanOutFollowsTheNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("one", pulls())
		w.label("two", nil)
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(in("one", "x"), "1")
		w.wantGone(in("two", "x"))
		w.wantGone(cm("x")) // the namespace of the source is none of them
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)

		w.label("two", pulls())
		w.label("new", pulls())
		w.now()
		w.wantValue(in("two", "x"), "1")
		w.wantValue(in("new", "x"), "1")
		w.settle()
		if r := w.report("r"); r.Matched != 3 || r.Synced != 3 || r.Sources[0].Matched != 3 {
			t.Errorf("status %+v", r)
		}

		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		w.peers[a].put(configMap("y", "1"))
		w.now()
		for _, ns := range []string{"one", "two", "new"} {
			w.wantValue(in(ns, "x"), "2")
			w.wantValue(in(ns, "y"), "1")
		}

		w.label("one", map[string]string{"pull": "no"})
		w.now()
		w.wantGone(in("one", "x"))
		w.wantGone(in("one", "y"))
		w.wantValue(in("two", "x"), "2")

		w.local.remove(in("two", "x"))
		w.now()
		w.wantValue(in("two", "x"), "2")
		w.peers[a].remove(cm("x"))
		w.now()
		w.wantGone(in("two", "x"))
		w.wantGone(in("new", "x"))
		w.wantValue(in("two", "y"), "1")
		w.settle()
		w.checkIndexes()
		if r := w.report("r"); r.Matched != 2 || r.Synced != 2 {
			t.Errorf("status %+v", r)
		}
	})
}

// The namespace of the source may be one of those that are selected.
func TestFanOutIntoTheNamespaceOfTheSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("default", pulls())
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.restart(func() {})
		w.wantValue(cm("x"), "1")
		w.label("default", nil)
		w.now()
		w.wantGone(cm("x"))
	})
}

// While the labels are not known nothing is concluded from them, and what is there goes on being updated.
func TestFanOutWithoutKnowledge(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("one", pulls())
		w.label("two", pulls())
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.local.cutNamespaces(ErrForbidden)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonMissingPermission)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "may not list, watch namespaces here; grant it with: kubectl apply") {
			t.Errorf("message %q", m)
		}
		w.label("two", nil)
		w.label("three", pulls())
		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		w.settle()
		w.wantValue(in("one", "x"), "2")
		w.wantValue(in("two", "x"), "2")
		w.wantGone(in("three", "x"))

		w.restart(func() {}) // it knows nothing
		w.wantValue(in("two", "x"), "2")
		w.wantGone(in("three", "x"))
		w.local.cutNamespaces(nil)
		w.settle()
		w.wantGone(in("two", "x"))
		w.wantValue(in("three", "x"), "2")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// What is in a namespace that is being deleted is left alone.
func TestFanOutIntoANamespaceThatEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("one", pulls())
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		ends := func(labels map[string]string) {
			w.local.edit(namespaceNamed("one"), func(o *unstructured.Unstructured) {
				o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
				o.SetLabels(labels)
			})
			w.settle()
		}
		ends(pulls())
		writes := w.local.writes()
		w.peers[a].put(configMap("y", "1"))
		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		ends(nil)
		w.wantValue(in("one", "x"), "1")
		w.wantGone(in("one", "y"))
		if n := w.local.writes() - writes; n > 0 {
			t.Errorf("%d writes into a namespace that is being deleted", n)
		}
		w.local.remove(in("one", "x"))
		w.local.remove(namespaceNamed("one"))
		w.settle()
		if r := w.report("r"); r.Matched != 0 || r.Failed != 0 {
			t.Errorf("status %+v", r)
		}
		w.label("one", pulls()) // another of the name
		w.now()
		w.wantValue(in("one", "x"), "2")
		w.wantValue(in("one", "y"), "1")
	})
}

// Namespaces that ceased to match before our eyes are proof; those that a list has so count for the guard, as all do where
// what is seen is no proof.
func TestGuardCountsNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.labelMany("n", 6, pulls())
		w.settle()
		w.wantCopies("x", "x", "x", "x", "x", "x")
		w.labelMany("n", 5, nil)
		w.settle()
		w.wantCopies("x")

		w.labelMany("n", 6, pulls())
		w.settle()
		w.restart(func() { w.labelMany("n", 6, nil) })
		w.wantCopies("x", "x", "x", "x", "x", "x")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"v": "2"} })
		w.settle() // that says nothing about namespaces
		w.wantCopies("x", "x", "x", "x", "x", "x")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.checkIndexes()
		w.labelMany("n", 4, pulls()) // most are as they were
		w.settle()
		w.wantCopies("x", "x", "x", "x")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.checkIndexes()

		w.local.cutNamespaces(errUnavailable())
		w.settle()
		w.labelMany("n", 4, nil)
		w.local.cutNamespaces(nil)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		r := spreading(testRule("r"))
		r.Annotations = map[string]string{"local.cluster-registry.k8s.cisco.com/confirm-deletions": "4"}
		w.setRule(r)
		w.settle()
		w.wantCopies()
	})
}

func TestGuardLiveCountsNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.restart(func() { w.options = func(o *Options) { o.GuardLive = true } })
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.labelMany("n", 6, pulls())
		w.settle()
		w.labelMany("n", 6, nil)
		w.settle()
		// That it is all of them is known with the last one: those before it may be deleted by then.
		if n := len(w.local.names("ConfigMap")); n < 1 {
			t.Errorf("%d copies are left", n)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
	})
}

// An edit of the selector lets go of copies by the policy for that.
func TestFanOutIsEdited(t *testing.T) {
	inWorld(t, func(w *world) {
		w.label("one", pulls())
		w.label("two", map[string]string{"pull": "yes", "env": "prod"})
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		edited := spreading(testRule("r"))
		edited.Spec.TargetNamespaces.MatchLabels["env"] = "prod"
		w.setRule(edited)
		w.settle()
		w.wantOwner(in("one", "x"), a, true)
		w.wantOwner(in("two", "x"), a, false)
		plain := testRule("r")
		plain.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(plain)
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantGone(in("two", "x"))
		if n := w.local.watchesOf("Namespace"); n != 0 {
			t.Errorf("%d watches of namespaces, which nobody asks for any more", n)
		}
		w.e.DeleteRule("r")
		w.settle()
		w.wantGone(cm("x"))
		w.checkIndexes()
	})
}

// Objects of one cluster that would be too many copies do not hold up those of another.
func TestFanOutIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.labelMany("n", 50, pulls())
		w.setRule(spreading(testRule("r")))
		w.peers[b].put(configMap("y", "1"))
		for i := range fanout.MaxCopies/50 + 1 {
			w.peers[a].put(configMap(fmt.Sprintf("x%03d", i), "1"))
		}
		w.settle()
		w.wantValue(in("n01", "y"), "1")
		before := len(w.local.names("ConfigMap"))
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonTooManyCopies)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "would make 10050 copies, of 201 objects in 50 namespaces") {
			t.Errorf("message %q", m)
		}
		w.labelMany("n", 2, nil)
		w.now()
		w.wantGone(in("n01", "y"))
		time.Sleep(10 * time.Minute) // the writes of one cluster have a pace
		if n := len(w.local.names("ConfigMap")); n != 48*(fanout.MaxCopies/50+2) || before > n {
			t.Errorf("%d copies, %d before", n, before)
		}
		w.checkIndexes()
	})
}

func TestFanOutOfAKindOutsideNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		r := spreading(testRule("r"))
		r.Spec.GVK.Kind, r.Spec.Rules[0].Matches = "ClusterThing", nil
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonInvalidRule)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "spec.targetNamespaces") {
			t.Errorf("message %q", m)
		}
	})
}

// What may not be written there is not, in one namespace of many.
func TestFanOutIntoProtectedNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"kube-system", "cluster-registry-private", "one"} {
			w.label(name, pulls())
		}
		w.setRule(spreading(testRule("r")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(in("one", "x"), "1")
		w.wantCopies("x")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConsentRequired)
	})
}
