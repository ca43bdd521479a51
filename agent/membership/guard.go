// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

const (
	// recordHeld is the delay before removals of members are recorded that are held: a member can send thousands.
	recordHeld = time.Second
	// askPause is how long members that this cluster tells that it was removed have until it looks who refuses it.
	askPause = 2 * time.Second
)

// Keyring is the table of pinned keys for the replica. Hold and Removed go with it.
func (m *Membership) Keyring() replica.Keyring { return keyring{m.trust, m} }

type keyring struct {
	*trust.Table
	membership *Membership
}

// Introduce implements replica.Keyring.
func (k keyring) Introduce(id string, key ed25519.PublicKey, introducer string) error {
	k.membership.guard.Meet(id, k.membership.replica.Reconsider)
	err := k.Table.Introduce(id, key, introducer)
	if _, held := k.membership.guard.Held(id, key); err == nil && held {
		k.membership.work.carryOut.TriggerAfter(recordHeld) // it affected nothing here before
	}
	return err
}

// Hold says what becomes of a removal: see replica.Options.
func (m *Membership) Hold(r replica.Removal) removalguard.Standing { return m.guard.Hold(r) }

// Collector counts the removals that nobody has confirmed.
func (m *Membership) Collector() prometheus.Collector { return m.guard.Collector() }

// met says whether the agent of a member was ever in contact with this one, in this run or, as the status of its Cluster object
// says, in an earlier one.
func (m *Membership) met(id string) bool {
	if m.mesh.Member(id).State != mesh.Unknown {
		return true
	}
	for _, c := range m.o.Registry.ByID(id) {
		for _, cond := range c.Status.Conditions {
			if cond.Type == v1alpha1.ConditionMember && cond.Reason != v1alpha1.MemberUnknown {
				return true
			}
		}
	}
	return false
}

// answerHeld is the answer of Tell to who sends a removal that is held. Earlier versions answer nothing, and take any answer.
const answerHeld = "held"

// told is the answer to a member that has sent a removal, and merged it itself: of one that was ordered here it says that it is in
// effect there now.
func (m *Membership) told(from string, message []byte) []byte {
	r, err := replica.ParseRemoval(message)
	if err != nil {
		return nil
	}
	if known, ok := m.ledger.Lookup(r.ClusterID, r.PublicKey); ok && known.Ordered {
		m.ledger.Confirmed(from, []removal{known})
		m.work.carryOut.Trigger()
	}
	if _, held := m.guard.Held(r.ClusterID, r.PublicKey); held {
		return []byte(answerHeld)
	}
	return nil
}

// held takes a removal that is held: nothing ends. What is recorded is the statement that the guard has, whatever else is said of that key.
func (m *Membership) held(r replica.Removal) {
	if shown, held := m.guard.Held(r.ClusterID, r.PublicKey); held && m.ledger.Held(shown) {
		m.work.carryOut.TriggerAfter(m.recordsHeld(r))
	}
	if r.ClusterID == m.o.ClusterID {
		m.work.again.Trigger()
	}
	if own := m.o.Own(); own != nil && m.guard.Waits(r) && m.once.First("held", r.By) {
		text := "removals by cluster " + m.o.Registry.Name(r.By) + " (" + r.By + ") are held, and end nothing until a person confirms them: agentctl removals list"
		m.o.Events.Event(m.o.Client.Clusters().Kind(), own, kube.EventWarning, "RemovalsHeld", text)
		m.o.Log.Warn("removals by a cluster are held", "by", r.ByName, "byClusterID", r.By)
	}
}

// recordsHeld is the delay before a removal is recorded that is held. One that would end nothing here if it took effect can wait.
func (m *Membership) recordsHeld(r replica.Removal) time.Duration {
	if r.ClusterID == m.o.ClusterID || m.trust.IsPinned(r.ClusterID, r.PublicKey) {
		return recordHeld
	}
	return recordUnknown
}

// reconsider asks again about removals of which something has changed, and about that of this cluster itself: it tells the others of
// it, to see whether they refuse this one.
func (m *Membership) reconsider(ctx context.Context) error {
	for _, r := range m.guard.Again() {
		if r.Standing == (removalguard.Standing{}) && m.trust.IsAuthority(m.o.ClusterID) { // others take it on the word of this one
			m.orderToo(ctx, r)
		}
		m.replica.Reconsider(r.ClusterID, r.PublicKey)
		if r.By != m.o.ClusterID && m.mesh.Member(r.By).State == mesh.Alive { // it waits for this one
			_, _ = m.sendRemoval(ctx, r.By, r)
		}
	}
	r, held := m.guard.Held(m.o.ClusterID, m.o.Key)
	for range 5 {
		if !held {
			break
		}
		m.sendToAll(ctx, m.Members(), r)
		m.replica.Reconsider(r.ClusterID, r.PublicKey)
		if r, held = m.guard.Held(m.o.ClusterID, m.o.Key); held {
			loop.Sleep(ctx, askPause)
		}
	}
	return nil
}

// orderToo has this cluster order what another one has ordered.
func (m *Membership) orderToo(ctx context.Context, r replica.Removal) {
	signed, err := m.replica.SignRemoval(r.ClusterID, r.PublicKey, m.o.Registry.Name(r.ClusterID), m.o.Name(), m.o.Now().Unix())
	if err == nil {
		err = m.publishRemovals(ctx, signed)
	}
	if err != nil {
		m.o.Log.Error("a confirmation is not passed on", "cluster", r.Name, "clusterID", r.ClusterID, "error", err)
	}
}

// checkConfirmations confirms the removals that an annotation on the own Cluster object names. Other members take them on the word of
// this one if it is an authority, and names itself as one.
func (m *Membership) checkConfirmations(own *v1alpha1.Cluster) {
	var names []trust.Name
	for _, text := range v1alpha1.Approvals(own.Annotations[v1alpha1.AnnotationConfirmRemovals]) {
		name, err := trust.ParseName(text)
		if err != nil || name.Fingerprint == "" {
			m.refuse(own, "ConfirmationRefused", "the annotation "+v1alpha1.AnnotationConfirmRemovals+" must list CLUSTERID/FINGERPRINT, separated by commas: "+text)
			continue
		}
		names = append(names, name)
	}
	confirmed := m.guard.Confirm(names)
	for _, r := range confirmed {
		m.o.Log.Warn("a removal was confirmed here", "cluster", r.Name, "clusterID", r.ClusterID, "by", r.ByName, "byClusterID", r.By)
	}
	if len(confirmed) > 0 {
		m.work.again.Trigger()
	}
}
