// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What an API server holds is dated by its clock, and so are the tokens that it issues: a clock here, or there, that is
// wrong makes a rule neither stuck nor well, and a credential neither expired nor good.
func TestDoctorGoesByTheClockOfTheServer(t *testing.T) {
	const tenYears = 10 * 365 * 24 * time.Hour
	for _, offset := range []time.Duration{-tenYears, -25 * time.Hour, 0, 25 * time.Hour, tenYears} {
		there := time.Now().Add(offset)
		rule := func(name string, since time.Duration) *v1alpha1.ResourceSyncRule {
			return &v1alpha1.ResourceSyncRule{
				ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(there.Add(-time.Hour))},
				Status: v1alpha1.ResourceSyncRuleStatus{Conditions: []metav1.Condition{{
					Type: "Ready", Status: metav1.ConditionFalse, Reason: "SourceUnreachable", LastTransitionTime: metav1.NewTime(there.Add(-since)),
				}}},
			}
		}
		p := &target{client: &clusters.Client{Context: "x"}, id: "x", offset: offset, rules: []*v1alpha1.ResourceSyncRule{rule("passing", time.Minute), rule("stuck", 11*time.Minute)}}
		other := &target{client: &clusters.Client{Context: "y"}, id: "y"}
		x := &inspection{targets: []*target{other, p}, stuckAfter: 10 * time.Minute}
		if found := checkRules(t.Context(), x); len(found) != 1 {
			t.Errorf("a clock that is off by %v: %v", offset, found)
		}
		c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{ClusterID: "x"}}
		for _, at := range x.targets { // its own, and the one for it in another cluster
			if off := x.issuerTime(at, c).Sub(there).Abs(); off > time.Minute {
				t.Errorf("a clock that is off by %v is taken for one that is off by %v", offset, off)
			}
		}
	}
}
