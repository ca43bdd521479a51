// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grouptest makes what the agents of a group would have written, for tests of the page.
package grouptest

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Condition is one that an agent has written.
func Condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Of is what the first of n clusters holds, all of it well, with so many rules.
func Of(n, rules int) live.View {
	s := live.View{Complete: true}
	for i := range n {
		c := &v1alpha1.Cluster{}
		c.Name, c.Spec.ClusterID = fmt.Sprintf("cluster-%03d", i), types.UID(fmt.Sprintf("id-%03d", i))
		c.Status.Type, c.Status.State, c.Status.Version = v1alpha1.ClusterTypePeer, v1alpha1.ClusterStateSynced, "v1.36.3"
		reason := v1alpha1.MemberAlive
		if i == 0 {
			c.Status.Type, reason = v1alpha1.ClusterTypeLocal, v1alpha1.MemberLocal
		}
		c.Status.Conditions = []metav1.Condition{
			Condition(v1alpha1.ConditionMember, metav1.ConditionTrue, reason, ""),
			Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Reachable", ""),
			Condition(v1alpha1.ConditionClustersSynced, metav1.ConditionTrue, "Synced", ""),
		}
		s.Clusters = append(s.Clusters, c)
	}
	for i := range rules {
		r := &v1alpha1.ResourceSyncRule{}
		r.Name, r.Spec.GVK.Kind = fmt.Sprintf("rule-%02d", i), "Secret"
		r.Status.Conditions = []metav1.Condition{Condition(clusters.RuleReady, metav1.ConditionTrue, "Synced", "")}
		for j := 1; j < n; j++ {
			r.Status.Sources = append(r.Status.Sources, v1alpha1.SourceStatus{ClusterID: s.Clusters[j].Spec.ClusterID, Watching: true, Matched: 2, Synced: 2})
			r.Status.Matched, r.Status.Synced = r.Status.Matched+2, r.Status.Synced+2
		}
		s.Rules = append(s.Rules, r)
	}
	return s
}

// Fail makes a cluster one whose agent and API server are away.
func Fail(c *v1alpha1.Cluster, why string) {
	c.Status.State, c.Status.Message = v1alpha1.ClusterStateFailed, why
	c.Status.Conditions = []metav1.Condition{
		Condition(v1alpha1.ConditionMember, metav1.ConditionFalse, v1alpha1.MemberFailed, why),
		Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "APIUnreachable", why),
		Condition(v1alpha1.ConditionClustersSynced, metav1.ConditionTrue, "Synced", ""),
	}
}
