// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestCountPeers(t *testing.T) {
	synced := agenttest.Cluster("synced", agenttest.IDB)
	synced.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionClustersSynced, Status: metav1.ConditionTrue}}
	disabled := agenttest.Cluster("disabled", "id-d")
	disabled.Annotations = map[string]string{v1alpha1.AnnotationClusterDisabled: ""}
	all := []*v1alpha1.Cluster{
		agenttest.Cluster("self", agenttest.IDA), synced, agenttest.Cluster("behind", agenttest.IDC), disabled, agenttest.Cluster("listed", ""),
	}
	var got View
	got.CountPeers(all, agenttest.IDA)
	if got.Peers != 2 || got.Synced != 1 || cmp.Diff([]string{"behind"}, got.Unsynced) != "" {
		t.Errorf("%d peers, %d synced, not: %v", got.Peers, got.Synced, got.Unsynced)
	}
}
