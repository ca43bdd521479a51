// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules"
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
		w.wantReady("m", metav1.ConditionTrue, ReasonSynced)
		newer := testRule("a", "x")
		newer.CreationTimestamp = metav1.NewTime(at.Add(time.Hour))
		newer.Spec.GVK.Version = "v9"
		w.setRule(newer)
		w.settle()
		w.wantReady("a", metav1.ConditionFalse, ReasonVersionConflict)
		w.wantReady("m", metav1.ConditionTrue, ReasonSynced)
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		w.wantValue(cm("x"), "2")
		w.e.DeleteRule("m")
		w.settle()
		if r := w.report("a").Conditions[0].Reason; r == ReasonVersionConflict {
			t.Error("the newer rule waits for one that is gone")
		}
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
