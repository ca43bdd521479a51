// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

func TestClusterStatus(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	member := func(s mesh.MemberState, since time.Duration) mesh.Member {
		return mesh.Member{ClusterID: idB, State: s, Since: ago(since)}
	}
	connected := accessState{access: accessReady, since: ago(time.Hour)}
	type summary struct {
		State                 v1alpha1.ClusterState
		Ready, Synced, Member metav1.ConditionStatus
		Reason                string
		After                 time.Duration
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	tests := map[string]struct {
		view view
		want summary
	}{
		"local, alone":             {view{local: true, claims: 1}, summary{v1alpha1.ClusterStateSynced, yes, yes, yes, "Running", 0}},
		"local, a peer is not":     {view{local: true, claims: 1, peers: 2, synced: 1, unsynced: []string{"b"}}, summary{v1alpha1.ClusterStateReady, yes, no, yes, "Running", 0}},
		"local with a problem":     {view{local: true, claims: 1, problem: "no Secret"}, summary{v1alpha1.ClusterStateFailed, no, yes, yes, "Problem", 0}},
		"peer, all well":           {view{pinned: true, member: member(mesh.Alive, time.Hour), access: connected, heard: true}, summary{v1alpha1.ClusterStateSynced, yes, yes, yes, "Connected", 0}},
		"peer, catching up":        {view{pinned: true, member: member(mesh.Alive, time.Hour), access: connected}, summary{v1alpha1.ClusterStateReady, yes, no, yes, "Connected", 0}},
		"peer suspected":           {view{pinned: true, member: member(mesh.Suspect, time.Second), access: connected, heard: true}, summary{"", unknown, unknown, unknown, "Suspect", 59 * time.Second}},
		"peer just failed":         {view{pinned: true, member: member(mesh.Failed, 10*time.Second), access: connected, heard: true}, summary{"", unknown, unknown, no, "Unreachable", 50 * time.Second}},
		"peer failed for long":     {view{pinned: true, member: member(mesh.Failed, time.Minute), access: connected, heard: true}, summary{v1alpha1.ClusterStateFailed, no, no, no, "Unreachable", 0}},
		"API away for a moment":    {view{pinned: true, member: member(mesh.Alive, time.Hour), access: accessState{access: accessUnreachable, since: ago(20 * time.Second)}, heard: true}, summary{"", unknown, unknown, yes, "APIUnreachable", 40 * time.Second}},
		"API away for long":        {view{pinned: true, member: member(mesh.Alive, time.Hour), access: accessState{access: accessUnreachable, since: ago(2 * time.Minute)}, heard: true}, summary{v1alpha1.ClusterStateFailed, no, no, yes, "APIUnreachable", 0}},
		"no credential":            {view{pinned: true, access: accessState{access: accessMissing}}, summary{v1alpha1.ClusterStateMissingAuthInfo, no, no, unknown, "MissingCredential", 0}},
		"bad credential":           {view{pinned: true, access: accessState{access: accessInvalid}}, summary{v1alpha1.ClusterStateInvalidAuthInfo, no, no, unknown, "InvalidCredential", 0}},
		"another cluster there":    {view{pinned: true, access: accessState{access: accessWrong}}, summary{v1alpha1.ClusterStateFailed, no, no, unknown, "WrongCluster", 0}},
		"disabled":                 {view{pinned: true, access: accessState{access: accessDisabled}}, summary{v1alpha1.ClusterStateDisabled, no, no, unknown, "Disabled", 0}},
		"no mesh key":              {view{access: connected}, summary{v1alpha1.ClusterStateReady, yes, no, unknown, "Connected", 0}},
		"another key":              {view{pinned: true, foreign: true, access: connected}, summary{v1alpha1.ClusterStateFailed, no, no, unknown, "KeyMismatch", 0}},
		"swapped in one direction": {view{pinned: true, access: connected}, summary{v1alpha1.ClusterStateReady, yes, no, unknown, "Connected", 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.view.now = now
			got, after := clusterStatus(tt.view, v1alpha1.ClusterStatus{}, 1)
			status := func(kind string) metav1.ConditionStatus { return meta.FindStatusCondition(got.Conditions, kind).Status }
			is := summary{
				got.State, status(v1alpha1.ConditionReady), status(v1alpha1.ConditionClustersSynced), status(v1alpha1.ConditionMember),
				meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady).Reason, after,
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Error(diff)
			}
			again, _ := clusterStatus(tt.view, got, 1)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("the same view changes the status again:\n%s", diff)
			}
		})
	}
}
