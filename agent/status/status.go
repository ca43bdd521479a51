// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

// View is all that the status of a Cluster object is computed from.
type View struct {
	Now             time.Time // by the clock of this machine, to measure elapsed time
	Date            time.Time // by the clock of the API server, for timestamps
	Local           bool
	Claims          int      // number of Cluster objects here with this clusterID
	Problem         string   // if local: what is wrong with this cluster
	Removed         string   // by whom and when the key in the object was removed; "" if it was not
	Left            string   // if local: when this cluster left its group
	OrderedRemovals []string // if local: removals that were ordered here
	Confirmed       bool     // if local: all members have confirmed them
	// NotAdmitted is, if local, which clusters wait to be admitted, and what to do, with a reason for that; if a peer,
	// that it is one of them.
	NotAdmitted, NotAdmittedReason string
	// Unconfirmed is, if local, which removals by other members nobody has confirmed; some are held if RemovalsHeld.
	Unconfirmed  string
	RemovalsHeld bool
	Slowed       string // if local: which changes of other clusters wait to be written here, and because of whom
	Peers        int    // if local: number of other clusters
	Synced       int    // if local: how many of them are synced
	Unsynced     []string
	Pinned       bool     // if a peer: its key is pinned
	Copy         bool     // if a peer: an agent wrote its object, no person
	AdmittedBy   []string // and on whose word
	Edge         bool     // its role in the group is edge; if local: so others say
	KeyMismatch  bool     // the object has another key than the pinned one
	Member       mesh.Member
	Access       apiconn.AccessState
	CaughtUp     bool // the peer itself has sent all that it published
	Describe     func(*v1alpha1.ClusterStatus)
}

// Of computes a status, starting from have. after is when the result will change by time alone, 0 for never.
func Of(v View, have v1alpha1.ClusterStatus, generation int64) (want v1alpha1.ClusterStatus, after time.Duration) {
	have.DeepCopyInto(&want)
	if v.Describe != nil {
		v.Describe(&want)
	}
	want.Type, want.Leader, want.AdmittedBy = v1alpha1.ClusterTypePeer, false, v.AdmittedBy[:min(len(v.AdmittedBy), v1alpha1.MaxAdmittedBy)]
	if v.Local {
		want.Type, want.Leader = v1alpha1.ClusterTypeLocal, true
	}
	want.Role = roleOf(v)
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&want.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(v.Date),
		})
	}
	set(v1alpha1.ConditionLocalCluster, truth(v.Local), string(want.Type), "")
	if v.Claims > 1 {
		set(v1alpha1.ConditionLocalConflict, metav1.ConditionTrue, "SameClusterID", fmt.Sprintf("%d Cluster objects have this clusterID: delete all but one", v.Claims))
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
	if len(v.OrderedRemovals) > 0 {
		reason := "Confirmed"
		if !v.Confirmed {
			reason = "Waiting"
		}
		set(v1alpha1.ConditionRemovalsConfirmed, truth(v.Confirmed), reason, v1alpha1.JoinRemovals(v.OrderedRemovals))
	} else {
		meta.RemoveStatusCondition(&want.Conditions, v1alpha1.ConditionRemovalsConfirmed)
	}
	setAsked(v, &want, set)
	ready, state := readyCondition(v)
	set(v1alpha1.ConditionReady, ready.Status, ready.Reason, ready.Message)
	synced := syncedCondition(v, ready)
	set(v1alpha1.ConditionClustersSynced, synced.Status, synced.Reason, synced.Message)

	want.State, want.Message = state, cmp.Or(ready.Message, v.NotAdmitted)
	if synced.Status == metav1.ConditionTrue && state == v1alpha1.ClusterStateReady {
		want.State = v1alpha1.ClusterStateSynced
	}
	if !v.Local && (ready.Status == metav1.ConditionUnknown || ready.Reason == reasonAgentUnreachable) {
		for _, since := range []time.Time{v.Member.Since, v.Access.Since} {
			if left := apiconn.Grace - v.Now.Sub(since); !since.IsZero() && left > 0 && (after == 0 || left < after) {
				after = left
			}
		}
	}
	return want, after
}

// roleOf is the role of a member in the group, "" of another cluster.
func roleOf(v View) string {
	switch {
	case v.Edge:
		return v1alpha1.RoleEdge
	case v.Local || v.Pinned:
		return v1alpha1.RoleFull
	}
	return ""
}

// setAsked sets the conditions of the own object that ask a person to decide something.
func setAsked(v View, want *v1alpha1.ClusterStatus, set func(kind string, status metav1.ConditionStatus, reason, message string)) {
	if v.Local && v.NotAdmitted != "" {
		set(v1alpha1.ConditionClustersAdmitted, metav1.ConditionFalse, v.NotAdmittedReason, v.NotAdmitted)
	} else {
		meta.RemoveStatusCondition(&want.Conditions, v1alpha1.ConditionClustersAdmitted)
	}
	if v.Local && v.Unconfirmed != "" {
		reason := map[bool]string{true: "Held", false: "Unconfirmed"}[v.RemovalsHeld]
		set(v1alpha1.ConditionRemovalsInEffect, truth(!v.RemovalsHeld), reason, v.Unconfirmed)
	} else {
		meta.RemoveStatusCondition(&want.Conditions, v1alpha1.ConditionRemovalsInEffect)
	}
	if v.Local && v.Slowed != "" {
		set(v1alpha1.ConditionChangesApplied, metav1.ConditionFalse, v1alpha1.ChangesSlowed, v.Slowed)
	} else {
		meta.RemoveStatusCondition(&want.Conditions, v1alpha1.ConditionChangesApplied)
	}
}

func memberCondition(v View) metav1.Condition {
	if v.Removed != "" {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberRemoved, Message: v.Removed}
	}
	if v.Local {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.MemberLocal}
	}
	if !v.Pinned && v.NotAdmitted != "" {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberPending, Message: v.NotAdmitted}
	}
	if !v.Pinned && v.Copy {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.MemberUnknown, Message: "this is a copy that an agent wrote, and it is not recorded that anybody here swapped with that cluster; if it stays so, no member brings it: delete the object (kubectl delete cluster), and swap again (agentctl join)"}
	}
	if !v.Pinned {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.MemberUnknown, Message: "its Cluster object has no spec.mesh.publicKey: paste the Cluster object that its own agent made. A cluster without mesh reads this one only with the chart value credentials.legacyToken here"}
	}
	switch v.Member.State {
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

// reasonAgentUnreachable is the reason of Ready when the agent does not answer, and the API server may. If that has not
// answered for a while either, the reason is apiconn.Unreachable.
const reasonAgentUnreachable = "AgentUnreachable"

// readyCondition also returns the state, "" while it is not known.
func readyCondition(v View) (metav1.Condition, v1alpha1.ClusterState) {
	is := func(status metav1.ConditionStatus, reason, message string, state v1alpha1.ClusterState) (metav1.Condition, v1alpha1.ClusterState) {
		return metav1.Condition{Status: status, Reason: reason, Message: message}, state
	}
	if v.Removed != "" {
		return is(metav1.ConditionFalse, v1alpha1.MemberRemoved, v.Removed, v1alpha1.ClusterStateFailed)
	}
	if v.Local {
		if v.Problem != "" {
			return is(metav1.ConditionFalse, "Problem", v.Problem, v1alpha1.ClusterStateFailed)
		}
		return is(metav1.ConditionTrue, "Running", "", v1alpha1.ClusterStateReady)
	}
	switch v.Access.Access {
	case apiconn.Disabled:
		return is(metav1.ConditionFalse, string(v.Access.Access), v.Access.Message, v1alpha1.ClusterStateDisabled)
	case apiconn.Missing:
		return is(metav1.ConditionFalse, string(v.Access.Access), v.Access.Message, v1alpha1.ClusterStateMissingAuthInfo)
	case apiconn.Invalid:
		return is(metav1.ConditionFalse, string(v.Access.Access), v.Access.Message, v1alpha1.ClusterStateInvalidAuthInfo)
	case apiconn.Wrong:
		return is(metav1.ConditionFalse, string(v.Access.Access), v.Access.Message, v1alpha1.ClusterStateFailed)
	case apiconn.Pending, apiconn.Ready, apiconn.Unreachable:
	}
	if v.KeyMismatch {
		return is(metav1.ConditionFalse, "KeyMismatch", "this object carries another public key than the one that is pinned for its clusterID; the first one stays trusted", v1alpha1.ClusterStateFailed)
	}
	unreachable := v.Access.Access == apiconn.Unreachable && v.Now.Sub(v.Access.Since) >= apiconn.Grace
	if v.Pinned && !unreachable && (v.Member.State == mesh.Failed || v.Member.State == mesh.Left) {
		if v.Now.Sub(v.Member.Since) >= apiconn.Grace {
			return is(metav1.ConditionFalse, reasonAgentUnreachable, "its agent is not reachable: copies from there stay as they are until it returns", v1alpha1.ClusterStateFailed)
		}
		return is(metav1.ConditionUnknown, reasonAgentUnreachable, "its agent does not answer", "")
	}
	switch v.Access.Access {
	case apiconn.Unreachable:
		if unreachable {
			return is(metav1.ConditionFalse, string(apiconn.Unreachable), v.Access.Message, v1alpha1.ClusterStateFailed)
		}
		return is(metav1.ConditionUnknown, string(apiconn.Unreachable), v.Access.Message, "")
	case apiconn.Ready:
		if v.Pinned && v.Member.State == mesh.Suspect {
			return is(metav1.ConditionUnknown, "Suspect", "its agent does not answer", "")
		}
		return is(metav1.ConditionTrue, string(apiconn.Ready), "", v1alpha1.ClusterStateReady)
	case apiconn.Pending, apiconn.Disabled, apiconn.Missing, apiconn.Invalid, apiconn.Wrong:
	}
	return is(metav1.ConditionUnknown, "Connecting", "connecting", "")
}

func syncedCondition(v View, ready metav1.Condition) metav1.Condition {
	switch {
	case v.Local && len(v.Unsynced) > 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: "PeersNotSynced", Message: fmt.Sprintf("%d of %d peers are synced; not: %s", v.Synced, v.Peers, shorten(v.Unsynced))}
	case v.Local && v.Peers == 0 && v.Removed == "":
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Alone", Message: cmp.Or(v.Left, "no other cluster in the group yet")}
	case v.Local && v.Removed != "":
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.MemberRemoved, Message: v.Removed}
	case v.Local:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Synced", Message: fmt.Sprintf("%d of %d peers are synced", v.Synced, v.Peers)}
	case v.CaughtUp && ready.Status == metav1.ConditionTrue && v.Member.State == mesh.Alive:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Synced"}
	case ready.Status == metav1.ConditionUnknown:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: ready.Reason, Message: ready.Message}
	case ready.Status == metav1.ConditionFalse:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ready.Reason, Message: ready.Message}
	case v.Member.State != mesh.Alive:
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

// shorten lists at most five names.
func shorten(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

// Synced reports whether a status shows a cluster that is synced.
func Synced(s v1alpha1.ClusterStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionClustersSynced)
}

// CountPeers counts the other clusters, and which of them are synced. A Cluster without a clusterID is none.
func (v *View) CountPeers(all []*v1alpha1.Cluster, self string) {
	for _, c := range all {
		if id := string(c.Spec.ClusterID); id == "" || id == self || payload.Has(c, v1alpha1.AnnotationClusterDisabled) {
			continue
		}
		if v.Peers++; Synced(c.Status) {
			v.Synced++
		} else {
			v.Unsynced = append(v.Unsynced, c.Name)
		}
	}
}
