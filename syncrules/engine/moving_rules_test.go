// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func TestSeveralSourcesForOnePlace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[a].put(configMap("x", "x"))
		w.peers[a].put(configMap("y", "y"))
		w.setRule(moving(testRule("r"), "name", "one"))
		w.settle()
		w.wantValue(cm("one"), "x") // the first
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "default/y") {
			t.Errorf("message %q does not name the other", m)
		}
		if r := w.report("r"); r.Matched != 2 || r.Synced != 1 || r.Conflicts != 1 {
			t.Errorf("report %+v", r)
		}
		w.peers[a].put(configMap("a", "a")) // comes before, and too late
		w.peers[a].put(configMap("y", "y2"))
		w.restart(func() {})
		w.wantValue(cm("one"), "x")
		if w.local.writes() != 1 {
			t.Errorf("requests %v, want one create", w.local.requests)
		}
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantValue(cm("one"), "a")
		w.peers[a].remove(cm("a"))
		w.settle()
		w.wantValue(cm("one"), "y2")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.peers[a].remove(cm("y"))
		w.settle()
		w.wantCopies()
		w.checkIndexes()
	})
}

func TestSeveralRulesToDifferentPlaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("here"))
		w.setRule(moving(testRule("one"), "name", "one"))
		two := moving(testRule("two"), "name", "two")
		two.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(two)
		w.setRule(moving(testRule("two-as-well"), "name", "two"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantCopies("one", "two", "x")
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		for _, n := range []string{"one", "two", "x"} {
			w.wantValue(cm(n), "2")
		}
		if rules := syncrules.MadeBy(w.local.find(cm("two"))); fmt.Sprint(rules) != "[two two-as-well]" {
			t.Errorf("it was made by %v", rules)
		}
		w.e.DeleteRule("two-as-well")
		w.settle()
		w.wantOwner(cm("two"), a, false)
		w.e.DeleteRule("two")
		w.e.DeleteRule("one")
		w.settle()
		w.wantCopies("one", "x")
		w.wantOwner(cm("one"), a, true)
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantCopies("one")
		w.checkIndexes()
	})
}

func TestRenameIsEdited(t *testing.T) {
	for policy, left := range map[v1alpha1.DeletionPolicy]string{v1alpha1.DeletionOrphan: "[a b]", v1alpha1.DeletionDelete: "[b]"} {
		for how, away := range map[string]bool{"alive": false, "away": true} {
			t.Run(string(policy)+" "+how, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.peers[a].put(configMap("x", "1"))
					r := moving(testRule("r"), "name", "a")
					r.Spec.RuleDeletionPolicy = policy
					w.setRule(r)
					w.settle()
					edited := moving(testRule("r"), "name", "b")
					edited.Spec.RuleDeletionPolicy = policy
					if away {
						w.restart(func() { w.rules["r"] = edited })
					} else {
						w.setRule(edited)
						w.settle()
					}
					if got := fmt.Sprint(w.local.names("ConfigMap")); got != left {
						t.Errorf("%s, want %s", got, left)
					}
					w.wantOwner(cm("b"), a, false)
					if policy == v1alpha1.DeletionOrphan {
						w.wantOwner(cm("a"), a, true)
					}
					w.setRule(testRule("r")) // not renamed at all
					w.settle()
					w.wantOwner(cm("x"), a, false)
					w.checkIndexes()
				})
			})
		}
	}
}

func TestRenamingRuleDeleted(t *testing.T) {
	for policy, left := range map[v1alpha1.DeletionPolicy]string{v1alpha1.DeletionOrphan: "[one]", v1alpha1.DeletionDelete: "[]"} {
		for how, away := range map[string]bool{"alive": false, "away": true} {
			t.Run(string(policy)+" "+how, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.peers[a].put(configMap("x", "1"))
					r := moving(testRule("r"), "name", "one", "namespace", "team")
					r.Spec.RuleDeletionPolicy = policy
					w.setRule(r)
					w.settle()
					if away {
						w.restart(func() { clear(w.rules) })
					} else {
						w.e.DeleteRule("r")
						w.settle()
					}
					if got := fmt.Sprint(w.local.names("ConfigMap")); got != left {
						t.Errorf("%s, want %s", got, left)
					}
					if w.local.open()+w.peers[a].open() != 0 {
						t.Errorf("watches are open without a rule")
					}
				})
			})
		}
	}
}

// A rule that cannot be used any more lets go of nothing, and its copies are still its own when it is deleted.
func TestRenamingRuleBreaks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers[a].put(configMap("x", "1"))
		w.setRule(toKind(testRule("r"), "Thing"))
		w.settle()
		bad := toKind(testRule("r"), "Thing")
		bad.Spec.Rules[0].Matches = []v1alpha1.SyncRuleMatch{{}}
		w.setRule(bad)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonInvalidRule)
		w.wantOwner(thing("Thing", "default", "x"), a, false)
		w.e.DeleteRule("r")
		w.settle()
		w.wantOwner(thing("Thing", "default", "x"), a, true)
	})
}
