// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine"
)

func TestReportTakesAwayOnlyItsOwnConditions(t *testing.T) {
	status := v1alpha1.ResourceSyncRuleStatus{
		Matched: 1, Sources: []v1alpha1.SourceStatus{{ClusterID: "a", Lag: &metav1.Duration{Duration: time.Second}}, {ClusterID: "gone"}},
		Conditions: []metav1.Condition{
			{Type: engine.ConditionReady, Status: metav1.ConditionFalse, Reason: "Old"},
			{Type: engine.ConditionOrphans, Status: metav1.ConditionTrue, Reason: "Old"},
			{Type: conditionNameClash, Status: metav1.ConditionTrue, Reason: "SameName"},
		},
	}
	report := engine.RuleReport{
		Matched: 2, Sources: []v1alpha1.SourceStatus{{ClusterID: "a"}},
		Conditions: []metav1.Condition{{Type: engine.ConditionReady, Status: metav1.ConditionTrue, Reason: "Synced"}},
	}
	takeReport(&status, report, metav1.Time{})
	if len(status.Conditions) != 2 || status.Conditions[0].Reason != "Synced" || status.Conditions[1].Type != conditionNameClash || status.Matched != 2 {
		t.Errorf("status %+v", status)
	}
	if len(status.Sources) != 1 || status.Sources[0].Lag == nil || report.Sources[0].Lag != nil {
		t.Errorf("sources %+v: a lag that is not known leaves the one that is recorded", status.Sources)
	}
	before := *status.DeepCopy()
	if takeReport(&status, report, metav1.Time{}); !equality.Semantic.DeepEqual(before, status) {
		t.Errorf("the same report is a change: %+v", status)
	}
}
