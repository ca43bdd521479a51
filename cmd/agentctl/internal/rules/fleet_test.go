// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// A rule is frozen where its agent says that it writes and deletes nothing for it, or for one cluster.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		"Paused": true, "DeletionGuard": true, "SourceRestored": true, "ConsentRequired": true, skew.Reason: true, "TargetUnknown": true, "InvalidRule": true,
		"VersionConflict": true, "TooManyRules": true, "Synced": false, "NotTargeted": false, "Progressing": false,
	} {
		if got := frozen(&v1alpha1.ResourceSyncRule{}, clusters.Readiness{Reason: reason}); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
	left := &v1alpha1.ResourceSyncRule{Status: v1alpha1.ResourceSyncRuleStatus{Sources: []v1alpha1.SourceStatus{{Watching: true, Message: "left alone"}}}}
	if !frozen(left, clusters.Readiness{Reason: "Synced"}) {
		t.Error("a cluster that is left alone")
	}
}

// What a rule that only looks has found is added up, and told where it is most.
func TestDriftOfAll(t *testing.T) {
	t.Parallel()
	rule := func(drifted int32) *v1alpha1.ResourceSyncRule {
		return &v1alpha1.ResourceSyncRule{
			ObjectMeta: metav1.ObjectMeta{Name: "look", Generation: 1},
			Spec:       v1alpha1.ResourceSyncRuleSpec{Mode: v1alpha1.ModeObserve},
			Status: v1alpha1.ResourceSyncRuleStatus{ObservedGeneration: 1, Drifted: drifted, Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Observing", ObservedGeneration: 1},
			}},
		}
	}
	var answers []fleet.Answer[[]ruleState]
	for name, drifted := range map[string]int32{"none": 0, "few": 1, "most": 4} {
		answers = append(answers, fleet.Answer[[]ruleState]{Value: []ruleState{stateOf(&fleet.Member{Name: name, ID: name}, rule(drifted))}})
	}
	r := sumUp(answers).Rules[0]
	if r.Drifted != 5 || r.Bad[0].Cluster != "most" || !strings.Contains(r.Bad[0].text(), "4 objects are not as") || !strings.Contains(r.Bad[2].text(), "all objects are as") {
		t.Errorf("%d, %+v", r.Drifted, r.Bad)
	}
}
