// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func TestCopyFollowsItsSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r", "x"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "not selected"))
		w.now()
		w.wantValue(cm("x"), "1")
		w.wantGone(cm("y"))
		w.wantOwner(cm("x"), a, false)
		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "2", "data", "v") })
		w.now()
		w.wantValue(cm("x"), "2")
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if r := w.report("r"); r.Matched != 1 || r.Synced != 1 || r.ObservedGeneration != 1 || len(r.Sources) != 2 {
			t.Errorf("report %+v", r)
		}
		if w.local.count("create") != 1 || w.local.count("update") != 1 || w.local.count("read") != 0 {
			t.Errorf("requests %v, want one create, one update, no read", w.local.requests)
		}
		w.peers[a].remove(cm("x"))
		w.now()
		w.wantGone(cm("x"))
	})
}

func TestChangedCopyIsRestored(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		for what, change := range map[string]func(*unstructured.Unstructured){
			"value": func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "tampered", "data", "v") },
			"extra": func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "tampered", "data", "w") },
			"label": func(o *unstructured.Unstructured) {
				o.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: a, "x": "y"})
			},
			"owner mark": func(o *unstructured.Unstructured) {
				unstructured.RemoveNestedField(o.Object, "metadata", "annotations", v1alpha1.AnnotationOwnerClusterID)
			},
			"marks":      func(o *unstructured.Unstructured) { o.SetAnnotations(nil) },
			"label lost": func(o *unstructured.Unstructured) { o.SetLabels(nil) },
		} {
			before := w.local.find(cm("x"))
			w.local.edit(cm("x"), change)
			w.settle()
			after := w.local.find(cm("x"))
			if fmt.Sprint(after.Object["data"], after.GetLabels(), after.GetAnnotations()) != fmt.Sprint(before.Object["data"], before.GetLabels(), before.GetAnnotations()) {
				t.Errorf("%s: %v, want %v", what, after.Object, before.Object)
			}
		}
		w.local.remove(cm("x"))
		w.now()
		w.wantValue(cm("x"), "1")
	})
}

// A copy whose label is gone is watched by nobody. One that was changed after it was read is read again.
func TestUnwatchedCopyIsReadAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.local.admits(func(o *unstructured.Unstructured) error { return errForbidden(o, "exceeded quota: q") })
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) { o.SetLabels(nil) })
		w.settle()
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "t", "data", "v") })
		w.settle()
		w.local.admits(nil)
		time.Sleep(time.Minute)
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantOwner(cm("x"), a, false)
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		updates := w.local.count("update")
		time.Sleep(10 * time.Minute)
		if n := w.local.count("update") - updates; n > 0 {
			t.Errorf("%d more updates", n)
		}
	})
}

// The same of one that is to be deleted.
func TestUnwatchedCopyIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.local.admits(func(o *unstructured.Unstructured) error { return errForbidden(o, "exceeded quota: q") })
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) { o.SetLabels(nil) })
		w.settle()
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "t", "data", "v") })
		w.peers[a].remove(cm("x"))
		time.Sleep(time.Minute)
		w.settle()
		w.wantGone(cm("x"))
	})
}

// A copy that a list had before the write of it was answered needs no event: when the next list lacks it, it is made again.
func TestListedBeforeTheAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.mu.Lock()
		w.local.late = time.Second
		w.local.mu.Unlock()
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.now()
		w.local.cut(errUnavailable())
		w.local.cut(nil)
		w.settle()
		w.local.cut(errUnavailable())
		w.local.remove(cm("x"))
		w.local.cut(nil)
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

// A copy whose write the watch has not told of is gone when a newer list lacks it, however short a time ago it was written.
func TestNewerListLacksACopy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.settle()
		w.local.mu.Lock()
		for watch := range w.local.watches {
			watch.live = false // they are broken, and nobody has noticed
		}
		w.local.mu.Unlock()
		w.peers[a].put(configMap("x", "1"))
		w.now()
		w.wantValue(cm("x"), "1")
		w.local.remove(cm("x"))
		w.local.cut(nil)
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

func TestLocalAnnotationsStay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		writes := w.local.writes()
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) {
			withAnnotations(o, map[string]string{v1alpha1.LocalPrefix + "note": "mine"})
		})
		w.settle()
		if w.local.writes() != writes {
			t.Errorf("a local annotation was repaired")
		}
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		if w.local.find(cm("x")).GetAnnotations()[v1alpha1.LocalPrefix+"note"] != "mine" {
			t.Errorf("an update took a local annotation away")
		}
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) {
			withAnnotations(o, map[string]string{v1alpha1.AnnotationSyncDisabled: ""})
		})
		w.peers[a].put(configMap("x", "3"))
		w.settle()
		w.wantValue(cm("x"), "2")
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantValue(cm("x"), "2")
	})
}

func TestWithdrawnSourceFreezesItsCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(withAnnotations(configMap("never", "1"), map[string]string{v1alpha1.AnnotationSyncDisabled: ""}))
		w.settle()
		w.wantGone(cm("never"))
		w.peers[a].put(withAnnotations(configMap("x", "2"), map[string]string{v1alpha1.AnnotationSyncDisabled: ""}))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[a].put(configMap("x", "3"))
		w.settle()
		w.wantValue(cm("x"), "3")
	})
}

func TestSourceInDeletionKeepsItsCopyUntilGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.peers[a].edit(cm("x"), func(o *unstructured.Unstructured) {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
			o.SetFinalizers([]string{"example.com/hold"})
			_ = unstructured.SetNestedField(o.Object, "2", "data", "v")
		})
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantGone(cm("x"))
	})
}

func TestUnreachableOwnerFreezes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.peers[a].cut(errUnavailable())
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceUnreachable)
		// What was last known of the owner's object restores its copy.
		w.local.remove(cm("x"))
		w.local.edit(cm("y"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "tampered", "data", "v") })
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantValue(cm("y"), "1")
		// Without a Source nothing changes either, nor when the features are not known.
		w.e.SetPeer(Peer{ClusterID: a, Why: "disabled"})
		w.settle()
		w.wantValue(cm("x"), "1")
		// A complete list after the outage is proof.
		w.peers[a].cut(nil)
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], FeaturesKnown: true})
		w.settle()
		w.wantGone(cm("x"))
		w.wantValue(cm("y"), "1")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

func TestMutationsAreEdited(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		watches := w.peers[a].count("watch")
		r := testRule("r")
		r.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"copied": "yes"}}
		w.setRule(r)
		w.now()
		if w.local.find(cm("x")).GetLabels()["copied"] != "yes" {
			t.Errorf("the edited mutation did not reach the copy")
		}
		if w.peers[a].count("watch") != watches {
			t.Errorf("the source was listed again although the matches are the same")
		}
		w.setRule(testRule("r"))
		w.now()
		if _, ok := w.local.find(cm("x")).GetLabels()["copied"]; ok {
			t.Errorf("the label stayed")
		}
	})
}

func TestManyUpdatesOfOneObject(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "0"))
		w.settle()
		writes := w.local.writes()
		for i := range 40 {
			w.peers[a].put(configMap("x", fmt.Sprint(i+1)))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		w.now()
		w.wantValue(cm("x"), "40")
		if n := w.local.writes() - writes; n > 25 {
			t.Errorf("%d writes for 40 updates in 2 s", n)
		}
	})
}

func TestTwoRulesForOneObject(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second := testRule("first"), testRule("second", "x")
		first.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"l": "first", "f": "1"}}
		second.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"l": "second"}}
		w.setRule(first)
		w.setRule(second)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		if l := w.local.find(cm("x")).GetLabels(); l["l"] != "second" || l["f"] != "1" {
			t.Errorf("labels %v", l)
		}
		w.e.DeleteRule("second")
		w.settle()
		w.wantOwner(cm("x"), a, false)
		if l := w.local.find(cm("x")).GetLabels(); l["l"] != "first" {
			t.Errorf("labels %v after the second rule was deleted", l)
		}
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantGone(cm("x"))
	})
}

func TestRulesShareAWatch(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 10 {
			w.setRule(testRule(fmt.Sprintf("r%d", i)))
		}
		w.settle()
		if w.peers[a].open() != 1 || w.local.open() != 1 {
			t.Errorf("%d watches at the source and %d here, want 1 and 1", w.peers[a].open(), w.local.open())
		}
	})
}

func TestBulk(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = 5000
		for i := range n {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		w.setRule(testRule("r"))
		w.settle()
		if got := len(w.local.names("ConfigMap")); got != n {
			t.Fatalf("%d copies, want %d", got, n)
		}
		if w.local.count("create") != n || w.local.count("update") != 0 || w.local.count("read") != 0 {
			t.Errorf("requests %v, want %d creates alone", w.local.requests, n)
		}
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if r := w.report("r"); r.Matched != n || r.Synced != n {
			t.Errorf("report %+v", r)
		}
		sent := w.sent
		time.Sleep(time.Hour)
		if w.sent != sent || w.local.writes() != n {
			t.Errorf("%d reports and %d writes while nothing changed", w.sent-sent, w.local.writes()-n)
		}
	})
}
