// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
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
