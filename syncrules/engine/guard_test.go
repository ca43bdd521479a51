// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// putMany makes so many objects at a peer, and loseAway takes so many away while nobody can see it.
func (w *world) putMany(id, name string, n int) {
	for i := range n {
		w.peers[id].put(configMap(fmt.Sprintf("%s%02d", name, i), "1"))
	}
}

func (w *world) loseAway(id, name string, n int) {
	w.peers[id].cut(errUnavailable())
	w.now()
	for i := range n {
		w.peers[id].remove(cm(fmt.Sprintf("%s%02d", name, i)))
	}
	w.peers[id].cut(nil)
	w.settle()
}

// What goes missing during an outage counts together, however far apart the views of the rule come back: one by one
// they would be too few for the guard.
func TestGuardCountsAllViewsTogether(t *testing.T) {
	inWorld(t, func(w *world) {
		namespaces := []string{"n0", "n1", "n2", "n3", "n4"}
		r := testRule("r")
		r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{Namespaces: namespaces}}
		w.peers[a].closed = map[string]bool{}
		each := func(do func(namespace string, name Key)) {
			for _, ns := range namespaces {
				for i := range 6 {
					obj := configMap(fmt.Sprintf("x%02d", i), "1")
					obj.SetNamespace(ns)
					do(ns, serverKey(obj))
				}
			}
		}
		for _, ns := range namespaces {
			w.local.addNamespace(ns)
			w.peers[a].addNamespace(ns)
		}
		w.setRule(r)
		each(func(ns string, k Key) {
			obj := configMap(k.Name, "1")
			obj.SetNamespace(ns)
			w.peers[a].put(obj)
		})
		w.settle()
		w.peers[a].cut(errUnavailable())
		w.now()
		each(func(_ string, k Key) { w.peers[a].remove(k) })
		for _, ns := range namespaces[1:] {
			w.peers[a].closed[ns] = true
		}
		w.peers[a].cut(nil)
		w.settle()
		for _, ns := range namespaces[1:] { // one after the other
			if n := len(w.local.names("ConfigMap")); n != 30 {
				t.Fatalf("%d copies before %s is known", n, ns)
			}
			w.peers[a].openNamespace(ns)
			w.settle()
		}
		if n := len(w.local.names("ConfigMap")); n != 30 {
			t.Errorf("%d copies, want all 30 to be guarded", n)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		if m := w.report("r").Conditions[0].Message; !strings.HasPrefix(m, "30 of 30 copies would") {
			t.Errorf("message %q", m)
		}
	})
}

// A deletion that is seen is proof, whatever else of the cluster is not known.
func TestSeenDeletionNeedsNoOtherView(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{Namespaces: []string{"default", "team"}}}
		w.peers[a].closed = map[string]bool{"team": true}
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantGone(cm("x"))
	})
}

// One emptied cluster of several trips the guard although most of the copies are of others.
func TestGuardOfOneCluster(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.putMany(a, "x", 4)
		w.putMany(b, "y", 30)
		w.settle()
		w.loseAway(a, "x", 4)
		if n := len(w.local.names("ConfigMap")); n != 34 {
			t.Fatalf("%d copies, want all 34", n)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		m := w.report("r").Conditions[0].Message
		if !strings.HasPrefix(m, "4 of 4 copies from cluster "+a+" would") || !strings.Contains(m, "=4 ") {
			t.Errorf("message %q", m)
		}
		for _, s := range w.report("r").Sources {
			if of := string(s.ClusterID); !s.Watching || strings.Contains(s.Message, "guard") != (of == a) {
				t.Errorf("of %s it says %q, watching %t", of, s.Message, s.Watching)
			}
		}
		w.peers[b].put(configMap("y00", "2"))
		w.now()
		w.wantValue(cm("y00"), "2") // what the others have goes on
		w.peers[a].put(configMap("x00", "1"))
		w.settle()
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 31 {
			t.Errorf("%d copies, want 31: the guard opens when one is back", n)
		}
		for _, s := range w.report("r").Sources {
			if s.Message != "" {
				t.Errorf("opened, of %s it says %q", s.ClusterID, s.Message)
			}
		}
	})
}

// What is lacking of a cluster that is not known any more goes on counting: else the copies of others would go.
func TestGuardHoldsThroughAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{Namespaces: []string{"default", "team"}}}
		w.peers[a].closed = map[string]bool{}
		w.setRule(r)
		all := func(when string) {
			t.Helper()
			if n := len(w.local.names("ConfigMap")); n != 42 {
				t.Errorf("%d copies of 42 %s", n, when)
			}
		}
		w.putMany(a, "x", 30)
		w.putMany(b, "y", 12)
		w.settle()
		w.loseAway(a, "x", 25)
		w.loseAway(b, "y", 5)
		all("when too many are lacking")
		w.peers[a].closed["team"] = true
		w.peers[a].cut(errUnavailable())
		w.settle()
		w.peers[a].cut(nil)
		w.settle()
		all("while half of what a has is known")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.peers[a].openNamespace("team")
		w.settle()
		all("when all is known again")
	})
}

// A connection that is lost for a moment does not use a confirmation up.
func TestConfirmationHoldsThroughAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.putMany(a, "x", 100)
		w.settle()
		w.loseAway(a, "x", 100)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.local.mu.Lock()
		w.local.late = time.Second
		w.local.mu.Unlock()
		confirmed := w.rules["r"].DeepCopy()
		confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "100"}
		w.setRule(confirmed)
		time.Sleep(2500 * time.Millisecond)
		if n := len(w.local.names("ConfigMap")); n == 0 || n == 100 {
			t.Fatalf("%d copies: it is not in the middle", n)
		}
		w.peers[a].cut(errUnavailable())
		w.settle()
		w.peers[a].cut(nil)
		time.Sleep(20 * time.Second)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 0 {
			t.Errorf("%d copies are left", n)
		}
	})
}

// Who deletes the copies by hand has decided.
func TestGuardOpensWhenCopiesAreGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.putMany(a, "x", 5)
		w.settle()
		w.loseAway(a, "x", 5)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.local.remove(cm("x00"))
		w.local.remove(cm("x01"))
		w.settle()
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if n := len(w.local.names("ConfigMap")); n != 0 {
			t.Errorf("%d copies of 3 are left", n)
		}
	})
}

// What a list lacks is acted on when the last view of the rule is there, whichever that is.
func TestAbsenceCountsWhenAllIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{Namespaces: []string{"default", "team"}}}
		w.peers[a].closed = map[string]bool{}
		w.setRule(r)
		w.putMany(a, "x", 4)
		w.settle()
		w.peers[a].closed["team"] = true
		w.peers[a].cut(errUnavailable())
		w.now()
		w.peers[a].remove(cm("x00"))
		w.peers[a].cut(nil)
		w.settle()
		w.wantValue(cm("x00"), "1")
		w.peers[a].openNamespace("team")
		w.settle()
		w.wantGone(cm("x00"))
	})
}

// A cluster that the rule asks nothing of any more cannot keep it stopped.
func TestGuardForgetsWhoIsNotAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.ClusterFeatureMatches = []v1alpha1.ClusterFeatureMatch{{FeatureName: "f"}}
		feature := &v1alpha1.ClusterFeature{Spec: v1alpha1.ClusterFeatureSpec{FeatureName: "f"}}
		peer := Peer{ClusterID: a, Source: w.peers[a], FeaturesKnown: true, Features: []*v1alpha1.ClusterFeature{feature}}
		w.e.SetPeer(peer)
		w.setRule(r)
		w.putMany(a, "x", 5)
		w.settle()
		w.loseAway(a, "x", 5)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		peer.Features = nil
		w.e.SetPeer(peer)
		w.settle()
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonNoSource)
		w.wantOwner(cm("x00"), a, true)
	})
}

// An edit is no reason to believe what is missing, however many there are, and when.
func TestGuardHoldsThroughEdits(t *testing.T) {
	inWorld(t, func(w *world) {
		rule := func(names ...string) *v1alpha1.ResourceSyncRule {
			r := testRule("r", names...)
			r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
			return r
		}
		edits := 0
		mutated := func(r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
			edits++
			r.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"edit": fmt.Sprint(edits)}}
			return r
		}
		w.setRule(rule())
		w.putMany(a, "x", 5)
		w.settle()
		w.loseAway(a, "x", 5)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		all := func(when string) {
			t.Helper()
			w.settle()
			if n := len(w.local.names("ConfigMap")); n != 5 {
				t.Fatalf("%d copies of 5 after %s", n, when)
			}
		}
		w.peers[a].cut(errUnavailable())
		w.now()
		w.setRule(mutated(rule()))
		all("an edit during an outage")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		for i, r := range []*v1alpha1.ResourceSyncRule{rule("x00"), mutated(rule("x00")), rule("x00", "x01")} {
			w.setRule(r)
			all(fmt.Sprint("edit ", i))
		}
		w.peers[a].cut(nil)
		all("its end")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
	})
}

// A source that is there, and whose copy belongs elsewhere now, is proof as well.
func TestMovedCopyNeedsNoOtherView(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{Namespaces: []string{"default", "team"}}}
		r.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{Type: v1alpha1.OverrideReplace, Path: "/metadata/name", Value: "{{ .Object.metadata.labels.as }}"}}
		w.peers[a].closed = map[string]bool{"team": true}
		w.setRule(r)
		as := func(name string) {
			obj := configMap("x", "1")
			obj.SetLabels(map[string]string{"as": name})
			w.peers[a].put(obj)
			w.settle()
			w.wantValue(cm(name), "1")
		}
		as("one")
		as("two")
		w.wantGone(cm("one"))
	})
}

// The condition of a stopped rule says within seconds what is lacking, also while another copy of the kind is being written.
func TestGuardIsReportedDuringASlowWrite(t *testing.T) {
	guarded(t, 0, testRule("r"), func(w *world) {
		w.setRule(inNamespaces(testRule("other"), "team"))
		w.settle()
		w.local.mu.Lock()
		w.local.late = time.Minute
		w.local.mu.Unlock()
		slow := configMap("slow", "1")
		slow.SetNamespace("team")
		w.peers[a].put(slow)
		w.settle()
		w.setAside("x00", true)
		w.wantGuarded(5, "3 of 3"+besides+"1 that")
	})
}

// A rule that was stopped before a restart is suspect until all that its clusters have is known. Until then copies that
// somebody has set aside are watched, also in a namespace that the rule does not select any more; then no longer.
func TestWatchEndsWithTheSuspicion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(inNamespaces(testRule("r"), "default", "team"))
		w.peers[a].put(configMap("kept", "1"))
		other := configMap("other", "1")
		other.SetNamespace("team")
		w.peers[a].put(other)
		w.settle()
		w.setAside("kept", true)
		w.kill()
		edited := inNamespaces(testRule("r"), "team")
		edited.Generation = 2
		edited.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: problem.ReasonDeletionGuard}}
		w.rules["r"] = edited
		w.peers[a].cut(errUnavailable())
		w.start()
		watched := func() bool {
			return slices.ContainsFunc(w.scopes, func(s Scope) bool { return s.Namespace == "default" })
		}
		if !watched() {
			t.Errorf("the copy that was set aside is not watched: %v", w.scopes)
		}
		w.peers[a].cut(nil)
		w.settle()
		if watched() {
			t.Errorf("its namespace is still watched: %v", w.scopes)
		}
	})
}
