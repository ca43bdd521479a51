// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
)

// That changes wait is said with who brought them along.
func TestSlowed(t *testing.T) {
	own := &v1alpha1.Cluster{}
	own.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionChangesApplied, Status: metav1.ConditionFalse, Reason: v1alpha1.ChangesSlowed, Message: "9 changes wait"}}
	if got := In(own, " --context east"); len(got) != 1 || got[0] != (Decision{"9 changes wait", "agentctl members --tree --context east"}) {
		t.Errorf("%q", got)
	}
}

// An authority that does not count, and two keys of one cluster, are told of, once no cluster waits.
func TestNotAdmitted(t *testing.T) {
	for reason, fix := range map[string]string{
		v1alpha1.AdmittedUnknownAuthority: "agentctl members --context east, and name members in the chart value trust.authorities",
		v1alpha1.AdmittedOtherKey:         "agentctl members --tree --context east",
	} {
		own := &v1alpha1.Cluster{}
		own.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionClustersAdmitted, Status: metav1.ConditionFalse, Reason: reason, Message: "what is wrong"}}
		if got := In(own, " --context east"); len(got) != 1 || got[0] != (Decision{"what is wrong", fix}) {
			t.Errorf("%s: %q", reason, got)
		}
	}
}

// TestHeldRemovals: one decision for each author, and none for what is in effect, or whose author is no member any more.
func TestHeldRemovals(t *testing.T) {
	message, key := "", strings.Repeat("0a", 16)
	for _, r := range []unconfirmed.Removal{
		{Name: "a", By: "m", State: unconfirmed.Held},
		{Name: "b", By: "m", State: unconfirmed.Held},
		{Name: "c", By: "x", State: unconfirmed.Held},
		{Name: "d", By: "y", State: unconfirmed.InEffect},
		{Name: "e", By: "z", State: unconfirmed.Disputed},
	} {
		r.ClusterID, r.ByClusterID, r.ByKey, r.Fingerprint = r.Name, r.By, key, key
		message += r.Line() + "; "
	}
	own := &v1alpha1.Cluster{}
	own.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRemovalsInEffect, Status: metav1.ConditionFalse, Reason: "Held", Message: message}}
	var fixes []string
	for _, d := range In(own, " --context east") {
		fixes = append(fixes, d.Fix)
	}
	want := func(by string) string {
		return "agentctl removals list --context east, and if they are meant: agentctl removals confirm --by " + by + " --context east; else agentctl remove " + by + " --context east"
	}
	if !slices.Equal(fixes, []string{want("m"), want("x")}) {
		t.Errorf("%q", fixes)
	}
	own.Status.Conditions[0].Status = metav1.ConditionTrue
	if got := In(own, ""); len(got) > 0 {
		t.Errorf("with nothing held: %v", got)
	}
}
