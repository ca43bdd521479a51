// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

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

// Whether a cluster is a source of a rule is not known before its features are, and of one without mesh never. The rule says so.
func TestUnknownFeaturesAreSaid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a]})
		r := testRule("r")
		r.Spec.ClusterFeatureMatches = []v1alpha1.ClusterFeatureMatch{{FeatureName: "f"}}
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonNoSource)
		if text := w.condition("r", ConditionReady).Message; !strings.HasSuffix(text, "; the features of cluster "+a+" are not known") {
			t.Errorf("it says %q", text)
		}
		w.e.SetPeer(Peer{ClusterID: a, Source: w.peers[a], FeaturesKnown: true})
		w.settle()
		if text := w.condition("r", ConditionReady).Message; strings.Contains(text, "known") {
			t.Errorf("when they are known it says %q", text)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonNoSource)
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
		r.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "core"}}}
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantGone(cm("x"))
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonNotTargeted)
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

// A cluster that does not say what a rule asks for keeps its copies as they are, until it does.
func TestTargetUnknown(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		r.Spec.Targets = &v1alpha1.ClusterSelector{Regions: []string{"eu"}}
		in := func(regions ...string) {
			w.cluster = &v1alpha1.Cluster{Status: v1alpha1.ClusterStatus{Locality: &v1alpha1.Locality{Regions: regions}}}
			w.e.ClusterChanged()
			w.settle()
		}
		in("eu")
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		in()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonTargetUnknown)
		w.peers[a].put(configMap("x", "2"))
		w.peers[a].put(configMap("new", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantGone(cm("new"))
		in("us", "eu")
		w.wantValue(cm("x"), "2")
		in("us")
		w.wantGone(cm("x"))
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonNotTargeted)
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
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonPaused)
		w.peers[a].remove(cm("x"))
		w.setRule(testRule("r"))
		w.settle()
		w.wantGone(cm("x")) // pausing edited no match, so it went at the source
		w.wantValue(cm("new"), "1")
	})
}

func TestOwnerLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("same", "1"))
		w.peers[b].put(configMap("same", "1"))
		w.setRule(testRule("r"))
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
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced) // equal content is no conflict
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
		w.peers[a].put(configMap("kube-root-ca.crt", "every cluster has its own"))
		w.settle()
		w.wantGone(cm("x"))
		w.wantGone(cm("ours"))
		w.wantGone(cm("kube-root-ca.crt"))
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
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
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
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
	})
}
