// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
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
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
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
		w.wantReady("r", metav1.ConditionFalse, ReasonSourceUnreachable)
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
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
	})
}

func TestDeletionPolicies(t *testing.T) {
	inWorld(t, func(w *world) {
		keep := testRule("keep", "kept", "stops")
		keep.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		w.setRule(keep)
		w.peers[a].put(configMap("kept", "1"))
		w.settle()
		w.peers[a].remove(cm("kept"))
		w.settle()
		w.wantOwner(cm("kept"), a, true)
		w.peers[a].put(configMap("kept", "2")) // adopted again
		w.settle()
		w.wantOwner(cm("kept"), a, false)
		w.wantValue(cm("kept"), "2")
	})
}

func TestSourceStopsMatching(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Annotations = []v1alpha1.AnnotationSelector{{MatchAnnotations: map[string]string{"url": "https://example.com/?a=b"}}}
		w.setRule(r)
		w.peers[a].put(withAnnotations(configMap("x", "1"), map[string]string{"url": "https://example.com/?a=b"}))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantGone(cm("x"))
	})
}

func TestRuleDeleted(t *testing.T) {
	for policy, orphan := range map[v1alpha1.DeletionPolicy]bool{"": true, v1alpha1.DeletionOrphan: true, v1alpha1.DeletionDelete: false} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := testRule("r")
				r.Spec.RuleDeletionPolicy = policy
				w.setRule(r)
				w.peers[a].put(configMap("x", "1"))
				w.settle()
				w.e.DeleteRule("r")
				w.settle()
				if orphan {
					w.wantOwner(cm("x"), a, true)
				} else {
					w.wantGone(cm("x"))
				}
				if open := w.local.open() + w.peers[a].open(); open != 0 {
					t.Errorf("%d watches are open without a rule", open)
				}
				writes := w.local.writes()
				w.peers[a].put(configMap("x", "2"))
				w.settle()
				if w.local.writes() != writes {
					t.Errorf("written without a rule")
				}
				w.setRule(r)
				w.settle()
				w.wantValue(cm("x"), "2")
				w.wantOwner(cm("x"), a, false)
			})
		})
	}
}

func TestRuleEdited(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r", "x", "y"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.setRule(testRule("r", "y")) // lets go of x: by the rule, not by the source
		w.settle()
		w.wantOwner(cm("x"), a, true)
		w.wantOwner(cm("y"), a, false)
		w.peers[a].remove(cm("y"))
		w.settle()
		w.wantGone(cm("y"))
		if r := w.report("r"); r.ObservedGeneration != 2 || r.Matched != 0 {
			t.Errorf("report %+v", r)
		}
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

func TestFeatures(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.ClusterFeatureMatches = []v1alpha1.ClusterFeatureMatch{{FeatureName: "f"}}
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantGone(cm("x"))
		w.wantReady("r", metav1.ConditionTrue, ReasonNoSource)
		on := []*v1alpha1.ClusterFeature{{Spec: v1alpha1.ClusterFeatureSpec{FeatureName: "f"}}}
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], Features: on, FeaturesKnown: true})
		w.now()
		w.wantValue(cm("x"), "1")
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a]}) // not known is not "none"
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], FeaturesKnown: true})
		w.settle()
		w.wantOwner(cm("x"), a, true)
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], Features: on, FeaturesKnown: true})
		w.settle()
		w.wantOwner(cm("x"), a, false)
	})
}

func TestTargets(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Targets = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "core"}}
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantGone(cm("x"))
		w.wantReady("r", metav1.ConditionTrue, ReasonNotTargeted)
		w.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "core"}}}
		w.e.ClusterChanged()
		w.now()
		w.wantValue(cm("x"), "1")
		w.cluster = nil // not known: nothing changes
		w.e.ClusterChanged()
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.cluster = &v1alpha1.Cluster{}
		w.e.ClusterChanged()
		w.settle()
		w.wantOwner(cm("x"), a, true)
	})
}

func TestPaused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		r := testRule("r")
		r.Spec.Paused = true
		w.setRule(r)
		w.peers[a].put(configMap("x", "2"))
		w.peers[a].put(configMap("new", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantGone(cm("new"))
		w.wantReady("r", metav1.ConditionFalse, ReasonPaused)
		w.peers[a].remove(cm("x"))
		w.setRule(testRule("r"))
		w.settle()
		w.wantGone(cm("x")) // pausing edited no match, so it went at the source
		w.wantValue(cm("new"), "1")
	})
}

func TestOwnerLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("same", "1"))
		w.peers[b].put(configMap("same", "1"))
		w.settle()
		w.wantOwner(cm("same"), a, false)
		w.e.RemovePeer(a)
		w.settle()
		w.wantOwner(cm("x"), a, true)
		w.wantOwner(cm("same"), b, false) // the very same content: handed over
		if w.peers[a].open() != 0 {
			t.Errorf("a cluster that left is still watched")
		}
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], FeaturesKnown: true})
		w.settle()
		w.wantOwner(cm("x"), a, false)
	})
}

func TestTwoOrigins(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[b].put(configMap("x", "b"))
		w.peers[a].put(configMap("x", "a"))
		w.setRule(testRule("r"))
		w.settle()
		w.wantOwner(cm("x"), a, false) // the smaller clusterID
		w.wantReady("r", metav1.ConditionFalse, ReasonConflict)
		if r := w.report("r"); r.Conflicts != 1 || r.Synced != 1 || r.Matched != 2 {
			t.Errorf("report %+v", r)
		}
		w.peers[a].cut(errUnavailable())
		w.peers[b].put(configMap("x", "b2"))
		w.settle()
		w.wantValue(cm("x"), "a") // stays with its owner while that lives
		w.peers[a].cut(nil)
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantOwner(cm("x"), b, false)
		w.peers[a].put(configMap("x", "a2"))
		w.settle()
		w.wantValue(cm("x"), "b2")
		w.peers[a].put(configMap("x", "b2"))
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced) // equal content is no conflict
	})
}

func TestCopiesAreNoSources(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		copied := configMap("x", "1")
		copied.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: b})
		w.peers[a].put(copied)
		w.peers[a].put(withAnnotations(configMap("ours", "1"), map[string]string{v1alpha1.AnnotationOwnerClusterID: here}))
		w.settle()
		w.wantGone(cm("x"))
		w.wantGone(cm("ours"))
	})
}

func TestLocalObjectInTheWay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(configMap("x", "mine"))
		w.local.put(configMap("same", "1"))
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("same", "1"))
		w.settle()
		w.wantValue(cm("x"), "mine")
		w.wantReady("r", metav1.ConditionFalse, ReasonConflict)
		if r := w.report("r"); r.Conflicts != 1 || r.Synced != 1 {
			t.Errorf("report %+v", r)
		}
		if w.local.count("update") != 0 || w.local.count("read") > 4 {
			t.Errorf("requests %v", w.local.requests)
		}
		w.local.remove(cm("x"))
		w.now()
		w.wantValue(cm("x"), "1")
		// Taking both marks away hands a copy to the user.
		w.local.put(configMap("x", "mine again"))
		w.settle()
		w.wantValue(cm("x"), "mine again")
		if syncrules.IsCopy(w.local.find(cm("x"))) {
			t.Errorf("an object without marks was touched")
		}
		w.wantReady("r", metav1.ConditionFalse, ReasonConflict)
	})
}

func TestMissingNamespace(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Namespaces = []string{"late"}
		obj := configMap("x", "1")
		obj.SetNamespace("late")
		w.peers[a].addNamespace("late")
		w.peers[a].put(obj)
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, ReasonNamespaceMissing)
		time.Sleep(time.Minute)
		w.local.addNamespace("late")
		w.now()
		w.wantValue(serverKey(obj), "1")
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
		if open := w.local.open(); open != 1 {
			t.Errorf("%d local watches, want the one for copies", open)
		}
	})
}

func TestRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for _, n := range []string{"stays", "deleted", "changed", "tampered"} {
			w.peers[a].put(configMap(n, "1"))
		}
		w.settle()
		w.saveStatus()
		w.kill()
		w.peers[a].remove(cm("deleted"))
		w.peers[a].put(configMap("changed", "2"))
		w.local.edit(cm("tampered"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "t", "data", "v") })
		writes := w.local.writes()
		w.start()
		w.wantGone(cm("deleted"))
		w.wantValue(cm("changed"), "2")
		w.wantValue(cm("tampered"), "1")
		w.wantValue(cm("stays"), "1")
		if got := w.local.writes() - writes; got != 3 {
			t.Errorf("%d writes after the restart, want 3", got)
		}
	})
}

func TestRestartKnowsNothingYet(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.saveStatus()
		w.kill()
		w.prepare() // told nothing
		w.run()
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.e.SetRule(w.rules["r"].DeepCopy())
		w.e.Ready() // no peer is known: its copies stay
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.e.SetPeer(Peer{ClusterID: a, Why: "no credential yet"})
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.peers[a].cut(errUnavailable())
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], FeaturesKnown: true})
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[a].cut(nil)
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
	})
}

func TestRuleEditedOrDeletedWhileAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r", "x", "y"))
		w.setRule(testRule("gone", "z"))
		for _, n := range []string{"x", "y", "z"} {
			w.peers[a].put(configMap(n, "1"))
		}
		w.settle()
		w.saveStatus()
		w.kill()
		edited := testRule("r", "y")
		edited.Generation, edited.Status = 2, w.rules["r"].Status
		w.rules["r"] = edited
		delete(w.rules, "gone")
		w.peers[a].put(configMap("w", "1"))
		w.start()
		w.wantOwner(cm("x"), a, true) // the generation tells the edit from a deletion
		w.wantOwner(cm("y"), a, false)
		w.wantOwner(cm("z"), a, true)
	})
}

func TestLastRuleDeletedWhileAway(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.kill()
		clear(w.rules)
		w.start() // the scopes of the earlier run lead to the copy
		w.wantGone(cm("x"))
		if len(w.scopes) != 0 || w.local.open() != 0 {
			t.Errorf("scopes %v stay, %d watches are open", w.scopes, w.local.open())
		}
	})
}

func TestGuard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 30 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		w.peers[a].cut(errUnavailable())
		for i := range 21 {
			w.peers[a].remove(cm(fmt.Sprintf("x%02d", i)))
		}
		w.peers[a].cut(nil)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 30 {
			t.Fatalf("%d copies, want all 30 to be guarded", n)
		}
		w.wantReady("r", metav1.ConditionFalse, ReasonDeletionGuard)
		w.peers[a].put(configMap("x00", "1"))
		w.peers[a].put(configMap("x01", "1")) // 19 of 30: fewer than the guard asks for
		w.settle()
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 11 {
			t.Errorf("%d copies, want 11: the guard opens when enough are back", n)
		}
	})
}

func TestGuardIsConfirmed(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		w.setRule(r)
		for i := range 4 {
			w.peers[a].put(configMap(fmt.Sprintf("x%d", i), "1"))
		}
		w.settle()
		w.saveStatus()
		w.kill()
		for i := range 4 {
			w.peers[a].remove(cm(fmt.Sprintf("x%d", i)))
		}
		w.start()
		if n := len(w.local.names("ConfigMap")); n != 4 {
			t.Fatalf("%d copies, want all 4 to be guarded", n)
		}
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, syncrules.AnnotationConfirmDeletions+"=4") {
			t.Errorf("message %q does not say how to confirm", m)
		}
		confirmed := w.rules["r"].DeepCopy()
		confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "4"}
		w.e.SetRule(confirmed)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 0 {
			t.Errorf("%d copies after the confirmation", n)
		}
		// Live deletions are proof.
		for i := range 30 {
			w.peers[a].put(configMap(fmt.Sprintf("y%02d", i), "1"))
		}
		w.settle()
		for i := range 30 {
			w.peers[a].remove(cm(fmt.Sprintf("y%02d", i)))
		}
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 0 {
			t.Errorf("%d copies after live deletions", n)
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

func TestServerThatChangesWhatItIsGiven(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admit = func(o *unstructured.Unstructured) error {
			if o.GetKind() == "ConfigMap" {
				_ = unstructured.SetNestedField(o.Object, "injected", "data", "sidecar")
				withAnnotations(o, map[string]string{"injector": "was here"})
			}
			return nil
		}
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		time.Sleep(time.Minute)
		if n := w.local.writes(); n != 1 {
			t.Errorf("%d writes, want 1: the server's answer is final", n)
		}
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "t", "data", "v") })
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

func TestAnnotationThatComesBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		for range 100 { // a local controller that insists
			w.local.edit(cm("x"), func(o *unstructured.Unstructured) { withAnnotations(o, map[string]string{"status-of": "mine"}) })
			time.Sleep(20 * time.Millisecond)
		}
		writes := w.local.writes()
		time.Sleep(time.Minute)
		w.now()
		if n := w.local.writes(); n != writes || n > 20 {
			t.Errorf("%d writes, then %d more: the fight goes on", writes, n-writes)
		}
		if w.local.find(cm("x")).GetAnnotations()["status-of"] != "mine" {
			t.Errorf("the annotation was taken away in the end")
		}
	})
}

func TestLocalOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.settle()
		w.local.cut(errUnavailable())
		for i := range 20 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		time.Sleep(time.Minute)
		w.wantReady("r", metav1.ConditionFalse, ReasonLocalUnreachable)
		if n := w.local.count("create"); n > 20*20 {
			t.Errorf("%d creates in a minute of outage", n)
		}
		w.local.cut(nil)
		w.now()
		if n := len(w.local.names("ConfigMap")); n != 20 {
			t.Errorf("%d copies right after the outage, want 20", n)
		}
	})
}

func TestRefusedWritesAreReported(t *testing.T) {
	inWorld(t, func(w *world) {
		secret := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "default"},
			"type": "Opaque", "data": map[string]any{"x": "aHVudGVyMg=="},
		}}
		w.local.admit = func(o *unstructured.Unstructured) error {
			if o.GetKind() == "Secret" {
				return errInvalid(serverKey(o), "hunter2")
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, o.GetName(), nil)
		}
		r := testRule("secrets")
		r.Spec.GVK.Kind = "Secret"
		w.setRule(r)
		w.setRule(testRule("maps"))
		w.peers[a].put(secret)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantReady("secrets", metav1.ConditionFalse, ReasonWriteFailed)
		w.wantReady("maps", metav1.ConditionFalse, ReasonMissingPermission)
		if text := fmt.Sprint(w.report("secrets")); strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") {
			t.Errorf("the report tells a secret: %s", text)
		}
		creates := w.local.count("create")
		time.Sleep(5 * time.Minute)
		if n := w.local.count("create") - creates; n > 30 {
			t.Errorf("%d attempts in 5 minutes: no back-off", n)
		}
	})
}

func TestConsent(t *testing.T) {
	inWorld(t, func(w *world) {
		role := testRule("roles")
		role.Spec.GVK = v1alpha1.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
		w.setRule(role)
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Namespaces = []string{"kube-system"}
		w.setRule(r)
		obj := configMap("x", "1")
		obj.SetNamespace("kube-system")
		w.peers[a].put(obj)
		w.settle()
		w.wantReady("roles", metav1.ConditionFalse, ReasonConsentRequired)
		w.wantReady("r", metav1.ConditionFalse, ReasonConsentRequired)
		w.wantGone(serverKey(obj))
		if w.local.writes() != 0 {
			t.Errorf("something was written")
		}
	})
}

func TestInvalidRuleFreezes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		bad := testRule("r")
		bad.Spec.Rules[0].Mutations.SyncStatus = true
		w.setRule(bad)
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, ReasonUnsupportedField)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "spec.rules[0].mutations.syncStatus") {
			t.Errorf("message %q lacks the path", m)
		}
		w.wantOwner(cm("x"), a, false)
		w.wantValue(cm("x"), "1")
		w.setRule(testRule("r"))
		w.settle()
		w.wantValue(cm("x"), "2")
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
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
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
