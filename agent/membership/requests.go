// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"slices"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

// CheckRequests does what annotations on the own Cluster object ask for.
func (m *Membership) CheckRequests(own *v1alpha1.Cluster) {
	m.checkApprovals(own)
	m.checkConfirmations(own)
	m.checkLeaveRequest(own)
}

// refuse says once, in an event and in the log, why an annotation on a Cluster object is not followed.
func (m *Membership) refuse(c *v1alpha1.Cluster, reason, text string) {
	if m.once.First(string(c.UID), text) {
		m.o.Events.Event(m.o.Client.Clusters().Kind(), c, kube.EventWarning, reason, text)
		m.o.Log.Warn("a request is refused", "cluster", c.Name, "reason", reason, "why", text)
	}
}

// removeOnRequest removes the cluster of a Cluster object from the group, if an annotation on it asks for that.
func (m *Membership) removeOnRequest(ctx context.Context, name string) error {
	c, err := m.o.Registry.Clusters.Get(name)
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	asked, ok := c.Annotations[v1alpha1.AnnotationRemove]
	id := string(c.Spec.ClusterID)
	if !ok {
		return nil
	}
	refuse := func(text string) error { m.refuse(c, "RemovalRefused", text); return nil }
	if id == m.o.ClusterID {
		return refuse("a cluster does not remove itself: agentctl leave ends its membership, which the annotation " + v1alpha1.AnnotationLeave + " asks for")
	}
	if _, removed := m.removedFromGroup(); removed {
		return refuse("this cluster is not in the group any more, and so removes nobody from it")
	}
	key, pinned := m.trust.Key(id)
	branch, with := m.o.Branch(id), c.Annotations[v1alpha1.AnnotationRemoveAdmitted] == v1alpha1.RemoveWithAdmitted
	switch {
	case !pinned && m.Gone(id) && with && len(branch) > 0 && m.RemovedKey(c) != "" && asked == v1alpha1.RequestKey(c.Spec.Mesh.PublicKey):
		return m.remove(ctx, branch) // somebody else was first, and has removed the cluster alone
	case !pinned && m.Gone(id):
		return nil // done
	case !pinned:
		return refuse("no key of this cluster is trusted, so there is nothing to remove: delete the object")
	case asked != v1alpha1.RequestKey(key):
		return refuse("the annotation " + v1alpha1.AnnotationRemove + " must have the key of the cluster, spec.mesh.publicKey, as its value: " + v1alpha1.RequestKey(key))
	}
	if with {
		return m.remove(ctx, append([]string{id}, branch...))
	}
	m.trust.Keep(branch)
	if err := m.recordPins(ctx); err != nil {
		return err
	}
	return m.remove(ctx, []string{id})
}

// remove removes clusters from the group.
func (m *Membership) remove(ctx context.Context, ids []string) error {
	var signed []replica.Removal
	for _, id := range ids {
		key, pinned := m.trust.Key(id)
		if !pinned {
			continue // removed by somebody else meanwhile
		}
		for _, key := range append(m.trust.LeftUnder(id), key) {
			r, err := m.replica.SignRemoval(id, key, m.o.Registry.Name(id), m.o.Name(), m.o.Now().Unix())
			if err != nil {
				return err
			}
			signed = append(signed, r)
		}
	}
	return m.publishRemovals(ctx, signed...)
}

// sendRemovals sends a member the removals that were ordered here and that it has not confirmed.
func (m *Membership) sendRemovals(ctx context.Context, id string) error {
	_, pinned := m.trust.Key(id)
	waiting := m.ledger.WaitingFor(id)
	if len(waiting) == 0 || pinned && m.mesh.Member(id).State != mesh.Alive {
		return nil // MemberAlive tries again
	}
	var confirmed []removal
	for _, r := range waiting {
		held := false
		if pinned {
			var err error
			if held, err = m.sendRemoval(ctx, id, r.Removal); err != nil {
				m.work.sends.AddAfter(id, sendRetry) // it may be an older agent, or one that is stopping
				break
			}
		}
		if !held {
			confirmed = append(confirmed, r)
		} else if !slices.Contains(r.HeldBy, id) {
			m.ledger.Change(r.Removal, func(r *removal) { r.HeldBy = append(slices.Clone(r.HeldBy), id) })
		}
	}
	m.ledger.Confirmed(id, confirmed)
	m.Hooks.Changed(m.o.ClusterID)
	m.work.carryOut.Trigger()
	return nil
}

// sendRemoval sends a removal to a member, and returns when the member has merged it, and whether it holds it. If the call fails, the message is
// also sent without an answer: a member that refuses this cluster replies to that with the reason.
func (m *Membership) sendRemoval(ctx context.Context, id string, r replica.Removal) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	answer, err := m.mesh.Call(ctx, id, methodTell, r.Message())
	if err != nil {
		m.mesh.Send(id, r.Message())
	}
	return string(answer) == answerHeld, err
}
