// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

// grace is how long a failed member, or an API server that does not answer, is shown as unknown before it
// is shown as failed: one lost request says nothing (DESIGN section 4).
const grace = 60 * time.Second

// view is all that the status of a Cluster object is made of: values, so that clusterStatus is pure.
type view struct {
	now       time.Time // by the clock of this machine, for what has passed since another time by it
	date      time.Time // by the clock of the API server, for what is written there
	local     bool
	claims    int      // Cluster objects here with this clusterID
	problem   string   // what is wrong with this cluster's own part, when local
	removed   string   // that the key in the object was removed from the group, by whom and when
	left      string   // that this cluster left a group, when local
	orders    []string // removals that were ordered here, when local
	confirmed bool     // by all members
	peers     int      // other clusters, when local
	synced    int      // of those, synced
	unsynced  []string
	pinned    bool // the mesh knows the key, when a peer
	foreign   bool // the object carries another key than the pinned one
	member    mesh.Member
	access    accessState
	heard     bool // the peer told us all that it published, and its set is held here
	described func(*v1alpha1.ClusterStatus)
}

// clusterStatus says what is known of a cluster, as a change of have; after is when time alone will change
// the answer, or 0.
func clusterStatus(v view, have v1alpha1.ClusterStatus, generation int64) (want v1alpha1.ClusterStatus, after time.Duration) {
	have.DeepCopyInto(&want)
	if v.described != nil {
		v.described(&want)
	}
	want.Type, want.Leader = v1alpha1.ClusterTypePeer, false
	if v.local {
		want.Type, want.Leader = v1alpha1.ClusterTypeLocal, true
	}
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&want.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(v.date),
		})
	}
	set(v1alpha1.ConditionLocalCluster, truth(v.local), string(want.Type), "")
	if v.claims > 1 {
		set(v1alpha1.ConditionLocalConflict, metav1.ConditionTrue, "SameClusterID", fmt.Sprintf("%d Cluster objects have this clusterID: delete all but one", v.claims))
	} else {
		set(v1alpha1.ConditionLocalConflict, metav1.ConditionFalse, "Unique", "")
	}
	if want.Version != "" {
		set(v1alpha1.ConditionClusterMetadataSet, metav1.ConditionTrue, "Reported", "")
	} else {
		set(v1alpha1.ConditionClusterMetadataSet, metav1.ConditionFalse, "Pending", "the cluster has not described itself yet")
	}
	member := memberCondition(v)
	set(v1alpha1.ConditionMember, member.Status, member.Reason, member.Message)
	if len(v.orders) > 0 {
		reason := "Confirmed"
		if !v.confirmed {
			reason = "Waiting"
		}
		set(v1alpha1.ConditionRemovalsConfirmed, truth(v.confirmed), reason, v1alpha1.JoinRemovals(v.orders))
	} else {
		meta.RemoveStatusCondition(&want.Conditions, v1alpha1.ConditionRemovalsConfirmed)
	}
	ready, state := readyCondition(v)
	set(v1alpha1.ConditionReady, ready.Status, ready.Reason, ready.Message)
	synced := syncedCondition(v, ready)
	set(v1alpha1.ConditionClustersSynced, synced.Status, synced.Reason, synced.Message)

	want.State, want.Message = state, ready.Message
	if synced.Status == metav1.ConditionTrue && state == v1alpha1.ClusterStateReady {
		want.State = v1alpha1.ClusterStateSynced
	}
	if ready.Status == metav1.ConditionUnknown && !v.local {
		for _, since := range []time.Time{v.member.Since, v.access.since} {
			if left := grace - v.now.Sub(since); !since.IsZero() && left > 0 && (after == 0 || left < after) {
				after = left
			}
		}
	}
	return want, after
}

func memberCondition(v view) metav1.Condition {
	if v.removed != "" {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberRemoved, Message: v.removed}
	}
	if v.local {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.MemberLocal}
	}
	if !v.pinned {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.MemberUnknown, Message: "its Cluster object has no spec.mesh.publicKey: paste the Cluster object that its own agent made"}
	}
	switch v.member.State {
	case mesh.Alive:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.MemberAlive}
	case mesh.Suspect:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.MemberSuspect, Message: "its agent does not answer; asking others"}
	case mesh.Failed:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberFailed, Message: "its agent is not reached by any member"}
	case mesh.Left:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberLeft, Message: "its agent was stopped"}
	case mesh.Unknown:
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.MemberUnknown, Message: "its agent was not met yet: is the swap done in the other direction too, and is spec.mesh.endpoints reachable from here?"}
}

// readyCondition also gives the state, which stays empty while nothing is known.
func readyCondition(v view) (metav1.Condition, v1alpha1.ClusterState) {
	is := func(status metav1.ConditionStatus, reason, message string, state v1alpha1.ClusterState) (metav1.Condition, v1alpha1.ClusterState) {
		return metav1.Condition{Status: status, Reason: reason, Message: message}, state
	}
	if v.removed != "" {
		return is(metav1.ConditionFalse, v1alpha1.MemberRemoved, v.removed, v1alpha1.ClusterStateFailed)
	}
	if v.local {
		if v.problem != "" {
			return is(metav1.ConditionFalse, "Problem", v.problem, v1alpha1.ClusterStateFailed)
		}
		return is(metav1.ConditionTrue, "Running", "", v1alpha1.ClusterStateReady)
	}
	switch v.access.access {
	case accessDisabled:
		return is(metav1.ConditionFalse, string(v.access.access), v.access.message, v1alpha1.ClusterStateDisabled)
	case accessMissing:
		return is(metav1.ConditionFalse, string(v.access.access), v.access.message, v1alpha1.ClusterStateMissingAuthInfo)
	case accessInvalid:
		return is(metav1.ConditionFalse, string(v.access.access), v.access.message, v1alpha1.ClusterStateInvalidAuthInfo)
	case accessWrong:
		return is(metav1.ConditionFalse, string(v.access.access), v.access.message, v1alpha1.ClusterStateFailed)
	case accessPending, accessReady, accessUnreachable:
	}
	if v.foreign {
		return is(metav1.ConditionFalse, "KeyMismatch", "this object carries another public key than the one that is pinned for its clusterID; the first one stays trusted", v1alpha1.ClusterStateFailed)
	}
	if v.pinned && (v.member.State == mesh.Failed || v.member.State == mesh.Left) {
		if v.now.Sub(v.member.Since) >= grace {
			return is(metav1.ConditionFalse, "Unreachable", "its agent is not reachable: copies from there stay as they are until it returns", v1alpha1.ClusterStateFailed)
		}
		return is(metav1.ConditionUnknown, "Unreachable", "its agent does not answer", "")
	}
	switch v.access.access {
	case accessUnreachable:
		if v.now.Sub(v.access.since) >= grace {
			return is(metav1.ConditionFalse, string(accessUnreachable), v.access.message, v1alpha1.ClusterStateFailed)
		}
		return is(metav1.ConditionUnknown, string(accessUnreachable), v.access.message, "")
	case accessReady:
		if v.pinned && v.member.State == mesh.Suspect {
			return is(metav1.ConditionUnknown, "Suspect", "its agent does not answer", "")
		}
		return is(metav1.ConditionTrue, string(accessReady), "", v1alpha1.ClusterStateReady)
	case accessPending, accessDisabled, accessMissing, accessInvalid, accessWrong:
	}
	return is(metav1.ConditionUnknown, "Connecting", "connecting", "")
}

func syncedCondition(v view, ready metav1.Condition) metav1.Condition {
	switch {
	case v.local && len(v.unsynced) > 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: "PeersNotSynced", Message: fmt.Sprintf("%d of %d peers are synced; not: %s", v.synced, v.peers, brief(v.unsynced))}
	case v.local && v.peers == 0 && v.removed == "":
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Alone", Message: cmp.Or(v.left, "no other cluster in the group yet")}
	case v.local && v.removed != "":
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberRemoved, Message: v.removed}
	case v.local:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Synced", Message: fmt.Sprintf("%d of %d peers are synced", v.synced, v.peers)}
	case v.heard && ready.Status == metav1.ConditionTrue && v.member.State == mesh.Alive:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Synced"}
	case ready.Status == metav1.ConditionUnknown:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ready.Reason, Message: ready.Message}
	case ready.Status == metav1.ConditionFalse:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ready.Reason, Message: ready.Message}
	case v.member.State != mesh.Alive:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: "NotMet", Message: memberCondition(v).Message}
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: "CatchingUp", Message: "reading what that cluster published"}
}

func truth(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// brief lists at most five names.
func brief(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

// writeClusterStatus brings the status of the Cluster objects with a clusterID up to date, with a write
// only when it changes, and an event when that is something to know.
func (s *session) writeClusterStatus(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	for _, have := range s.registry.byID(id) {
		v := s.view(id, have)
		want, after := clusterStatus(v, have.Status, have.Generation)
		if after > 0 {
			s.statuses.addAfter(id, after)
		}
		if equality.Semantic.DeepEqual(have.Status, want) {
			s.passing.over(have.Name)
			continue
		}
		if wait := s.passing.wait(have.Name, v.lasting() || synced(want) && !synced(have.Status), v.now); wait > 0 {
			s.statuses.addAfter(id, wait)
			continue
		}
		update := have.DeepCopy()
		update.Status = want
		_, err := s.client.Clusters().ChangeStatus(ctx, have, update)
		if apierrors.IsConflict(err) {
			continue // the watch brings the newer object, and with it the next look
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write status of cluster %s: %w", have.Name, err)
		}
		if s.passing.over(have.Name); err != nil {
			continue // as after a conflict
		}
		s.announce(have, want.Conditions)
	}
	return nil
}

func synced(s v1alpha1.ClusterStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionClustersSynced)
}

// view collects what is known of a cluster.
func (s *session) view(id string, have *v1alpha1.Cluster) view {
	v := view{now: time.Now(), date: s.clock.now(), local: id == s.clusterID, claims: len(s.registry.byID(id))}
	if v.local {
		v.problem = s.problems.String()
		s.viewMembership(&v)
		v.described = func(status *v1alpha1.ClusterStatus) {
			status.AgentVersion = clip(s.options.Version)
			s.metadata.describe(status)
		}
		all, err := s.registry.clusters.List(labels.Everything())
		if err != nil {
			return v
		}
		for _, c := range all {
			if string(c.Spec.ClusterID) == id || has(c, v1alpha1.AnnotationClusterDisabled) {
				continue
			}
			if v.peers++; synced(c.Status) {
				v.synced++
			} else {
				v.unsynced = append(v.unsynced, c.Name)
			}
		}
		return v
	}
	key, pinned := s.trust.Key(id)
	v.pinned = pinned
	v.foreign = pinned && have.Spec.Mesh != nil && len(have.Spec.Mesh.PublicKey) > 0 && !key.Equal(asKey(have.Spec.Mesh.PublicKey))
	if have.Spec.Mesh != nil {
		if r, ok := s.removals.of(string(have.Spec.ClusterID), asKey(have.Spec.Mesh.PublicKey)); ok {
			v.removed = "its key in this object is not trusted: the cluster " + told(r) + "; " + readmission(have.Name)
		}
	}
	known := s.peers.look(id)
	v.member, v.access = s.mesh.Member(id), known.state
	v.heard = known.heard && s.replica.Progress(id).Completed > 0
	if e, ok := s.replica.Lookup(clusterKey(id), id); ok && e.Status == replica.Live {
		if p, err := decodeCluster(id, e.Payload); err == nil {
			v.described = p.report
		}
	}
	return v
}
