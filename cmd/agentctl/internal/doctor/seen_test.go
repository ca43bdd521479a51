// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func says(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func member(name string, kind v1alpha1.ClusterType, with ...metav1.Condition) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{}
	c.Name, c.Spec.ClusterID, c.Status.Type = name, types.UID("id-"+name), kind
	c.Status.Conditions = append(with,
		says(v1alpha1.ConditionReady, metav1.ConditionTrue, "Reachable", ""), says(v1alpha1.ConditionClustersSynced, metav1.ConditionTrue, "Synced", ""))
	return c
}

func ruleThat(name, reason, message string) *v1alpha1.ResourceSyncRule {
	r := &v1alpha1.ResourceSyncRule{}
	r.Name = name
	r.Status.Conditions = []metav1.Condition{says(clusters.RuleReady, metav1.ConditionFalse, reason, message)}
	return r
}

// Everything that waits for a person is found in what agents have written, each with its command; what settles by itself is not.
func TestInWritten(t *testing.T) {
	t.Parallel()
	w := Written{
		Client: &clusters.Client{Context: "east"},
		Clusters: []*v1alpha1.Cluster{
			member("alpha", v1alpha1.ClusterTypeLocal, says(v1alpha1.ConditionMember, metav1.ConditionTrue, "Local", ""),
				says(v1alpha1.ConditionClustersAdmitted, metav1.ConditionFalse, v1alpha1.AdmittedPending, v1alpha1.NewcomerLine(
					v1alpha1.Newcomer{Name: "de'lta", ClusterID: "id-delta", Fingerprint: v1alpha1.KeyFingerprint(nil), Introducer: "beta"}))),
			member("beta", v1alpha1.ClusterTypePeer, says(v1alpha1.ConditionMember, metav1.ConditionFalse, v1alpha1.MemberFailed, "no contact")),
			{}, // only listed
		},
		Rules: []*v1alpha1.ResourceSyncRule{
			ruleThat("guarded", "DeletionGuard", "9 of 10 copies would go; "+syncrules.AnnotationConfirmDeletions+"=9 lets them"),
			ruleThat("settling", "Progressing", "3 to go"),
			ruleThat("torn", "Conflict", "two sources"),
			ruleThat("unheard", "MissingPermission", "may not create widgets"),
		},
	}
	orphaned := ruleThat("left", "Paused", "its origin left")
	orphaned.Annotations = map[string]string{v1alpha1.AnnotationOrphaned: ""}
	w.Rules = append(w.Rules, orphaned)
	// Another one went back in time, and has copies that nobody maintains any more.
	back := Written{
		Client: &clusters.Client{Context: "west"},
		Clusters: []*v1alpha1.Cluster{member("gamma", v1alpha1.ClusterTypeLocal, says(v1alpha1.ConditionMember, metav1.ConditionTrue, "Local", ""),
			says(v1alpha1.ConditionReady, metav1.ConditionFalse, "Problem", "it went back in time; confirm with: "+v1alpha1.CommandConfirmRestore))},
		Rules: []*v1alpha1.ResourceSyncRule{{}},
	}
	back.Rules[0].Name = "kept"
	back.Rules[0].Status.Conditions = []metav1.Condition{
		says(clusters.RuleReady, metav1.ConditionTrue, "Synced", ""), says(clusters.RuleOrphans, metav1.ConditionTrue, "Orphans", "1 copy, shop/y"),
	}
	got := map[string]string{}
	for _, f := range InWritten(t.Context(), "ns", []Written{w, back}) {
		got[f.Check+" "+f.Message[:min(len(f.Message), 24)]] = f.Fix
	}
	for what, fix := range map[string]string{
		"members a cluster that was remov": `agentctl approve 'de'\''lta' --context east --key e3b0c44298fc1c149afbf4c8996fb924`,
		"members the agent in alpha says ": "kubectl -n ns rollout restart deployment,statefulset -l " + podsOfAgents + "  # in cluster beta",
		"restore rule guarded: 9 of 10 co": "agentctl guard confirm guarded --deletions=9 --context east",
		"restore its API server went back": "agentctl restore confirm --context west",
		"orphans rule kept has copies tha": "agentctl orphans list --context west",
		"rules rule torn is not Ready s":   "agentctl rules explain torn --context east",
		"rbac rule unheard: may not cr":    "agentctl rules explain unheard --context east",
	} {
		if got[what] != fix {
			t.Errorf("%q has the command %q, want %q", what, got[what], fix)
		}
		delete(got, what)
	}
	left := []string{}
	for what := range got {
		left = append(left, what)
	}
	slices.Sort(left)
	if want := []string{"orphans rule left is an orphan: ", "rules rule left is not Ready s"}; !slices.Equal(left, want) {
		t.Errorf("also found: %q, want %q", left, want)
	}
}
