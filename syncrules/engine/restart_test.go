// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func TestRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for _, n := range []string{"stays", "deleted", "changed", "tampered"} {
			w.peers[a].put(configMap(n, "1"))
		}
		w.settle()
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
		w.kill()
		w.prepare() // told nothing
		w.run()
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.e.SetRule(w.rules["r"].DeepCopy(), nil)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
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
		w.kill()
		edited := testRule("r", "y")
		edited.Generation = 2
		w.rules["r"] = edited
		delete(w.rules, "gone")
		w.peers[a].put(configMap("w", "1"))
		w.start()
		w.wantOwner(cm("x"), a, true) // the copy tells by which form of the rule it was made
		w.wantOwner(cm("y"), a, false)
		w.wantOwner(cm("z"), a, true)
	})
}

// An agent that is killed before it has told anything about a new rule knows all the same what its copies are.
func TestKilledRightAfterTheFirstCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.now()
		if len(w.reports) > 0 {
			t.Fatalf("the rule was reported: %+v", w.reports)
		}
		w.kill()
		w.peers[a].remove(cm("x"))
		w.start()
		w.wantGone(cm("x"))
	})
}

// A copy that an edit keeps is told so, and what goes later goes at the source, also over a restart.
func TestEditedThenDeletedWhileAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r", "x", "y"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.setRule(testRule("r", "x"))
		w.settle()
		writes := w.local.writes()
		w.kill()
		w.start()
		if n := w.local.writes() - writes; n > 0 {
			t.Errorf("%d writes by a restart alone", n)
		}
		w.kill()
		w.peers[a].remove(cm("x"))
		w.start()
		w.wantGone(cm("x"))
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
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
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
		w.kill()
		for i := range 4 {
			w.peers[a].remove(cm(fmt.Sprintf("x%d", i)))
		}
		w.start()
		if n := len(w.local.names("ConfigMap")); n != 4 {
			t.Fatalf("%d copies, want all 4 to be guarded", n)
		}
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "--deletions=4 ") {
			t.Errorf("message %q does not say how to confirm", m)
		}
		confirmed := w.rules["r"].DeepCopy()
		confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "4"}
		w.e.SetRule(confirmed, nil)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 0 {
			t.Errorf("%d copies after the confirmation", n)
		}
		if n := w.report("r").ConfirmedDeletions; n != 4 {
			t.Errorf("the status remembers %d as used, want 4", n)
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

// A confirmation is for what was missing when it was given: what goes missing later trips the guard again.
func TestConfirmationCountsOnce(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint(restarted), func(t *testing.T) {
			inWorld(t, func(w *world) {
				confirm := func(n string) {
					r := w.rules["r"].DeepCopy()
					r.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: n}
					r.Status = w.report("r")
					w.setRule(r)
					w.settle()
				}
				lose := func() {
					for i := range 4 {
						w.peers[a].put(configMap(fmt.Sprintf("x%d", i), "1"))
					}
					w.settle()
					if restarted {
						w.rules["r"].Status = w.report("r")
						w.kill()
					}
					w.peers[a].cut(errUnavailable())
					for i := range 4 {
						w.peers[a].remove(cm(fmt.Sprintf("x%d", i)))
					}
					w.peers[a].cut(nil)
					if restarted {
						w.start()
					}
					w.settle()
				}
				left := func() int { return len(w.local.names("ConfigMap")) }
				w.setRule(testRule("r"))
				lose()
				confirm("4")
				if n := left(); n != 0 {
					t.Fatalf("%d copies after the confirmation", n)
				}
				lose()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
				if n, m := left(), w.report("r").Conditions[0].Message; n != 4 || !strings.Contains(m, "--deletions=5 ") {
					t.Fatalf("%d copies of a later batch, %q", n, m)
				}
				confirm("5")
				if n := left(); n != 0 {
					t.Fatalf("%d copies after the second confirmation", n)
				}
				lose()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
				// Taken away, it may be given again.
				r := w.rules["r"].DeepCopy()
				r.Annotations = nil
				w.setRule(r)
				w.settle()
				if n := w.report("r").ConfirmedDeletions; n != 0 || left() != 4 {
					t.Errorf("%d copies, the status remembers %d", left(), n)
				}
				confirm("4")
				if n := left(); n != 0 {
					t.Errorf("%d copies after the third confirmation", n)
				}
			})
		})
	}
}
