// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Why a source is not reached of which there is nothing is not worth a write by itself; that one is reached, and what is wrong with one
// that is or of which there are copies, is.
func TestSameReport(t *testing.T) {
	t.Parallel()
	report := func(reason, message string, sources ...v1alpha1.SourceStatus) v1alpha1.ResourceSyncRuleStatus {
		return v1alpha1.ResourceSyncRuleStatus{Sources: sources, Conditions: []metav1.Condition{{Type: "Ready", Reason: reason, Message: message}}}
	}
	away := func(message string) v1alpha1.SourceStatus {
		return v1alpha1.SourceStatus{ClusterID: "a", Message: message}
	}
	copied, watched := away("x"), away("x")
	copied.Matched, watched.Watching = 1, true
	old := func(s v1alpha1.SourceStatus) v1alpha1.SourceStatus { s.Message = "y"; return s }
	for what, c := range map[string]struct {
		a, b v1alpha1.ResourceSyncRuleStatus
		same bool
	}{
		"it is tried again":       {report(ReasonSourceUnreachable, "x", away("x")), report(ReasonSourceUnreachable, "y", away("y")), true},
		"it is reached":           {report(ReasonSourceUnreachable, "x", away("x")), report(ReasonSourceUnreachable, "x", watched), false},
		"another reason":          {report(ReasonSourceUnreachable, "x"), report("MissingPermission", "x"), false},
		"another message":         {report("MissingPermission", "x"), report("MissingPermission", "y"), false},
		"one that has copies":     {report("Synced", "", copied), report("Synced", "", old(copied)), false},
		"one that is watched":     {report("Synced", "", watched), report("Synced", "", old(watched)), false},
		"one that is not reached": {report("Synced", ""), report("Synced", "", away("x")), false},
	} {
		if before := c.a.DeepCopy(); SameReport(c.a, c.b) != c.same || before.Conditions[0].Message != c.a.Conditions[0].Message {
			t.Errorf("%s: the same: %v", what, !c.same)
		}
	}
}
