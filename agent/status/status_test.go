// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

func TestOf(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	member := func(s mesh.MemberState, since time.Duration) mesh.Member {
		return mesh.Member{ClusterID: agenttest.IDB, State: s, Since: ago(since)}
	}
	connected := apiconn.AccessState{Access: apiconn.Ready, Since: ago(time.Hour)}
	type summary struct {
		State                 v1alpha1.ClusterState
		Ready, Synced, Member metav1.ConditionStatus
		Reason                string
		After                 time.Duration
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	tests := map[string]struct {
		view View
		want summary
	}{
		"local, alone":             {View{Local: true, Claims: 1}, summary{v1alpha1.ClusterStateSynced, yes, yes, yes, "Running", 0}},
		"local, a peer is not":     {View{Local: true, Claims: 1, Peers: 2, Synced: 1, Unsynced: []string{"b"}}, summary{v1alpha1.ClusterStateReady, yes, no, yes, "Running", 0}},
		"local with a problem":     {View{Local: true, Claims: 1, Problem: "no Secret"}, summary{v1alpha1.ClusterStateFailed, no, yes, yes, "Problem", 0}},
		"peer, all well":           {View{Pinned: true, Member: member(mesh.Alive, time.Hour), Access: connected, CaughtUp: true}, summary{v1alpha1.ClusterStateSynced, yes, yes, yes, "Connected", 0}},
		"peer, catching up":        {View{Pinned: true, Member: member(mesh.Alive, time.Hour), Access: connected}, summary{v1alpha1.ClusterStateReady, yes, no, yes, "Connected", 0}},
		"peer suspected":           {View{Pinned: true, Member: member(mesh.Suspect, time.Second), Access: connected, CaughtUp: true}, summary{"", unknown, unknown, unknown, "Suspect", 59 * time.Second}},
		"peer just failed":         {View{Pinned: true, Member: member(mesh.Failed, 10*time.Second), Access: connected, CaughtUp: true}, summary{"", unknown, unknown, no, "AgentUnreachable", 50 * time.Second}},
		"peer failed for long":     {View{Pinned: true, Member: member(mesh.Failed, time.Minute), Access: connected, CaughtUp: true}, summary{v1alpha1.ClusterStateFailed, no, no, no, "AgentUnreachable", 0}},
		"failed, its API for long": {View{Pinned: true, Member: member(mesh.Failed, time.Minute), Access: apiconn.AccessState{Access: apiconn.Unreachable, Since: ago(time.Minute)}}, summary{v1alpha1.ClusterStateFailed, no, no, no, "APIUnreachable", 0}},
		"failed, its API just now": {View{Pinned: true, Member: member(mesh.Failed, time.Hour), Access: apiconn.AccessState{Access: apiconn.Unreachable, Since: ago(20 * time.Second)}}, summary{v1alpha1.ClusterStateFailed, no, no, no, "AgentUnreachable", 40 * time.Second}},
		"API away for a moment":    {View{Pinned: true, Member: member(mesh.Alive, time.Hour), Access: apiconn.AccessState{Access: apiconn.Unreachable, Since: ago(20 * time.Second)}, CaughtUp: true}, summary{"", unknown, unknown, yes, "APIUnreachable", 40 * time.Second}},
		"API away for long":        {View{Pinned: true, Member: member(mesh.Alive, time.Hour), Access: apiconn.AccessState{Access: apiconn.Unreachable, Since: ago(2 * time.Minute)}, CaughtUp: true}, summary{v1alpha1.ClusterStateFailed, no, no, yes, "APIUnreachable", 0}},
		"no credential":            {View{Pinned: true, Access: apiconn.AccessState{Access: apiconn.Missing}}, summary{v1alpha1.ClusterStateMissingAuthInfo, no, no, unknown, "MissingCredential", 0}},
		"bad credential":           {View{Pinned: true, Access: apiconn.AccessState{Access: apiconn.Invalid}}, summary{v1alpha1.ClusterStateInvalidAuthInfo, no, no, unknown, "InvalidCredential", 0}},
		"another cluster there":    {View{Pinned: true, Access: apiconn.AccessState{Access: apiconn.Wrong}}, summary{v1alpha1.ClusterStateFailed, no, no, unknown, "WrongCluster", 0}},
		"disabled":                 {View{Pinned: true, Access: apiconn.AccessState{Access: apiconn.Disabled}}, summary{v1alpha1.ClusterStateDisabled, no, no, unknown, "Disabled", 0}},
		"no mesh key":              {View{Access: connected}, summary{v1alpha1.ClusterStateReady, yes, no, unknown, "Connected", 0}},
		"another key":              {View{Pinned: true, KeyMismatch: true, Access: connected}, summary{v1alpha1.ClusterStateFailed, no, no, unknown, "KeyMismatch", 0}},
		"swapped in one direction": {View{Pinned: true, Access: connected}, summary{v1alpha1.ClusterStateReady, yes, no, unknown, "Connected", 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.view.Now = now
			got, after := Of(tt.view, v1alpha1.ClusterStatus{}, 1)
			status := func(kind string) metav1.ConditionStatus { return meta.FindStatusCondition(got.Conditions, kind).Status }
			is := summary{
				got.State, status(v1alpha1.ConditionReady), status(v1alpha1.ConditionClustersSynced), status(v1alpha1.ConditionMember),
				meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady).Reason, after,
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Error(diff)
			}
			again, _ := Of(tt.view, got, 1)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("the same view changes the status again:\n%s", diff)
			}
		})
	}
}

// Timestamps in the API server are by its own clock.
func TestTimestampsAreByServerClock(t *testing.T) {
	there := time.Now().Add(-10 * agenttest.Year).Truncate(time.Second)
	status, _ := Of(View{Now: time.Now(), Date: there, Local: true}, v1alpha1.ClusterStatus{}, 1)
	for _, c := range status.Conditions {
		if !c.LastTransitionTime.Time.Equal(there) {
			t.Errorf("%s is dated %v, and the API server says %v", c.Type, c.LastTransitionTime, there)
		}
	}
}

// Where the record of a swap was lost, the copy says how to come out of that, and not to paste what has a key.
func TestStatusOfACopyThatNobodyAdmitted(t *testing.T) {
	for lost, want := range map[bool]string{true: "swap again (agentctl join)", false: "paste the Cluster object"} {
		got, _ := Of(View{Copy: lost, Claims: 1}, v1alpha1.ClusterStatus{}, 1)
		if cond := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMember); cond.Status != metav1.ConditionUnknown || !strings.Contains(cond.Message, want) {
			t.Errorf("%+v", cond)
		}
	}
}

// While changes of other clusters wait, the own object says so, and no other.
func TestStatusWhileChangesWait(t *testing.T) {
	got, _ := Of(View{Local: true, Claims: 1, Slowed: "9 wait"}, v1alpha1.ClusterStatus{}, 1)
	cond := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionChangesApplied)
	if cond == nil || cond.Status != metav1.ConditionFalse || cond.Reason != v1alpha1.ChangesSlowed || cond.Message != "9 wait" || got.State != v1alpha1.ClusterStateSynced {
		t.Errorf("%+v, state %s", cond, got.State)
	}
	if got, _ = Of(View{Local: true, Claims: 1}, got, 1); meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionChangesApplied) != nil {
		t.Errorf("when none waits: %+v", got)
	}
}

func TestStatusWhileAClusterIsPending(t *testing.T) {
	view := View{Local: true, Claims: 1, NotAdmitted: "gamma waits", NotAdmittedReason: v1alpha1.AdmittedPending}
	got, _ := Of(view, v1alpha1.ClusterStatus{}, 1)
	cond := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionClustersAdmitted)
	if cond == nil || cond.Status != metav1.ConditionFalse || cond.Reason != v1alpha1.AdmittedPending || cond.Message != "gamma waits" || got.Message != "gamma waits" || !view.lasting() {
		t.Errorf("%+v, %q", cond, got.Message)
	}
	if got.State != v1alpha1.ClusterStateSynced {
		t.Errorf("a newcomer, whom any member may bring, makes the state %s", got.State)
	}
	view.NotAdmitted, view.NotAdmittedReason = "", ""
	if got, _ = Of(view, got, 1); meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionClustersAdmitted) != nil || got.Message != "" {
		t.Errorf("when it is admitted: %+v", got)
	}
	got, _ = Of(View{Claims: 1, NotAdmitted: "approve it"}, v1alpha1.ClusterStatus{}, 1)
	if cond := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMember); cond.Status != metav1.ConditionFalse || cond.Reason != v1alpha1.MemberPending || cond.Message != "approve it" {
		t.Errorf("its own object: %+v", cond)
	}
}

// TestStatusOfRemovedCluster: a removal comes before every other reason, in the removed cluster itself and in an object
// with its key.
func TestStatusOfRemovedCluster(t *testing.T) {
	for _, local := range []bool{true, false} {
		want, _ := Of(View{Local: local, Removed: "was removed by X", Problem: "another", Peers: 1}, v1alpha1.ClusterStatus{}, 1)
		if want.State != v1alpha1.ClusterStateFailed || want.Message != "was removed by X" {
			t.Errorf("local %t: %s, %q", local, want.State, want.Message)
		}
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionMember} {
			i := slices.IndexFunc(want.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
			if c := want.Conditions[i]; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.MemberRemoved {
				t.Errorf("local %t: %+v", local, c)
			}
		}
	}
	want, _ := Of(View{Local: true, Left: "left on Monday"}, v1alpha1.ClusterStatus{}, 1)
	if i := slices.IndexFunc(want.Conditions, func(c metav1.Condition) bool { return c.Message == "left on Monday" }); i < 0 {
		t.Errorf("it does not say that it left: %+v", want.Conditions)
	}
}

// TestRole: a member has a role, and this cluster what others say; of a cluster whose key is not pinned nothing is told.
func TestRole(t *testing.T) {
	for _, c := range []struct {
		view View
		want string
	}{{View{}, ""}, {View{Pinned: true}, "full"}, {View{Pinned: true, Edge: true}, "edge"}, {View{Local: true}, "full"}, {View{Local: true, Edge: true}, "edge"}} {
		if got, _ := Of(c.view, v1alpha1.ClusterStatus{Role: "edge"}, 1); got.Role != c.want {
			t.Errorf("%+v: %q, want %q", c.view, got.Role, c.want)
		}
	}
}
