// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// TestANewRuleTakesNoVersionAway: rules of any member come in under any name, and one of them may be about a version
// that is served nowhere. What was at work goes on.
func TestANewRuleTakesNoVersionAway(t *testing.T) {
	inWorld(t, func(w *world) {
		at := time.Now()
		old := testRule("m", "x")
		old.CreationTimestamp = metav1.NewTime(at)
		w.setRule(old)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantReady("m", metav1.ConditionTrue, problem.ReasonSynced)
		newer := testRule("a", "x")
		newer.CreationTimestamp = metav1.NewTime(at.Add(time.Hour))
		newer.Spec.GVK.Version = "v9"
		w.setRule(newer)
		w.settle()
		w.wantReady("a", metav1.ConditionFalse, problem.ReasonVersionConflict)
		w.wantReady("m", metav1.ConditionTrue, problem.ReasonSynced)
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		w.wantValue(cm("x"), "2")
		w.e.DeleteRule("m")
		w.settle()
		if r := w.report("a").Conditions[0].Reason; r == problem.ReasonVersionConflict {
			t.Error("the newer rule waits for one that is gone")
		}
	})
}

// TestAnOlderRuleHasItsVersion: whoever's it is, a rule of another version waits for it, and says so, until it is gone.
func TestAnOlderRuleHasItsVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		at := time.Now()
		first := testRule("first", "nothing")
		first.CreationTimestamp = metav1.NewTime(at)
		first.Spec.GVK.Version = "v9"
		later := testRule("later", "x")
		later.CreationTimestamp = metav1.NewTime(at.Add(time.Hour))
		w.setRule(first)
		w.setRule(later)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantReady("later", metav1.ConditionFalse, problem.ReasonVersionConflict)
		if m := w.report("later").Conditions[0].Message; !strings.Contains(m, "rule first, which is older, about v9") {
			t.Errorf("it says %q", m)
		}
		w.e.DeleteRule("first")
		w.settle()
		w.wantReady("later", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantValue(cm("x"), "1")
	})
}

// A rule whose template uses up what all rules of a copy may take together keeps that copy as it is. What other rules select besides is
// copied as before.
func TestATemplateStopsNoOtherCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		put := func(value string) {
			for _, name := range []string{"x", "y"} {
				obj := configMap(name, value)
				for i := range 200 {
					obj.Object["data"].(map[string]any)[fmt.Sprint("k", i)] = "1"
				}
				w.peers[a].put(obj)
			}
			w.settle()
		}
		w.setRule(testRule("honest"))
		put("1")
		greedy := testRule("greedy", "x")
		all := "{{ range $.Object.data }}"
		greedy.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{
			Type: v1alpha1.OverrideReplace, Path: "/data/v", Value: strings.Repeat(all, 4) + strings.Repeat("{{ end }}", 4),
		}}
		w.setRule(greedy)
		w.settle()
		put("2")
		w.wantValue(cm("x"), "1")
		w.wantValue(cm("y"), "2")
		for _, rule := range []string{"greedy", "honest"} {
			if c := w.condition(rule, ConditionReady); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "x") {
				t.Errorf("rule %s says %+v", rule, c)
			}
		}
		w.e.DeleteRule("greedy")
		w.settle()
		w.wantValue(cm("x"), "2")
	})
}

// A rule that cannot be used beside an older one says nothing of its copies: to exclude them would orphan them.
func TestAClashOrphansNothing(t *testing.T) {
	r := newRule(testRule("r"), Options{}.Consent, nil)
	r.clash = "another version"
	if rel, _, why := (&Engine{}).relateLocked(r, &peer{}); rel != syncrules.Unusable || why != "rule r: another version" {
		t.Errorf("relation %v: %s", rel, why)
	}
}
