// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/syncrules"
)

// Swapped pins the key in a Cluster object that a person created here: the swap is the only trust anchor. The key in a
// copy that the agent wrote is pinned already, and editing such a copy changes no pin.
func (m *Membership) Swapped(c *v1alpha1.Cluster) {
	id := string(c.Spec.ClusterID)
	if c.Spec.Mesh == nil || len(c.Spec.Mesh.PublicKey) != ed25519.PublicKeySize || payload.Has(c, v1alpha1.AnnotationClusterDisabled) {
		return
	}
	if _, ended := m.ledger.Lookup(m.o.ClusterID, m.o.Key); ended {
		return // members refuse this cluster's key; after a new key, this is a swap
	}
	pinned, known := m.trust.Key(id)
	edge, widens := m.role(c)
	if !known && m.trust.IsEdge(m.o.ClusterID) {
		m.refuse(c, "NotAdmitted", "members say that this cluster is an edge of its group, which admits nobody: those that take it for one do not take cluster "+c.Name+"; then swap it with a full member")
	}
	if known && !widens && syncrules.Owner(c) == id && pinned.Equal(payload.AsKey(c.Spec.Mesh.PublicKey)) {
		return // a copy that the agent wrote, not a swap
	}
	if !known && syncrules.Owner(c) == id && (m.trust.Reserved(id) || !slices.Contains(c.Status.AdmittedBy, m.o.ClusterID)) {
		return // such a copy whose pin is not recorded, or that of another member: nobody here has admitted it
	}
	m.guard.Meet(id, m.replica.Reconsider)
	pin := m.trust.Pin
	if edge {
		pin = m.trust.PinEdge
	}
	m.pins.fresh.Store(id, nil)
	defer m.work.swaps.Trigger()
	if err := pin(id, payload.AsKey(c.Spec.Mesh.PublicKey)); err != nil {
		if !errors.Is(err, trust.ErrPinned) && !errors.Is(err, trust.ErrRemoved) { // its status shows these
			m.o.Log.Warn("a cluster is not trusted", "cluster", c.Name, "error", err)
		}
		return
	}
	if !known {
		m.mesh.RetryNow(id)
	}
}

// pinned is called by the trust table for each new pin.
func (m *Membership) pinned(p trust.Pin) {
	m.o.Log.Info("the key of a cluster is pinned", "clusterID", p.ClusterID, "introducer", p.Introducer)
	m.work.pins.Trigger()
	if m.guard.Pinned(p.ClusterID); m.guard.Pending() {
		m.work.again.Trigger()
	}
	m.Hooks.Pinned(p.ClusterID)
}

// recordNoPins deletes the recorded pins. It waits for recordPins, which may be writing the pins of a moment ago.
func (m *Membership) recordNoPins(ctx context.Context) error {
	m.pins.recording.Lock()
	defer m.pins.recording.Unlock()
	return pinned.Write(ctx, m.o.Store, nil)
}

// recordPins records the present pins. While the group is being forgotten it leaves the record alone, because a restart
// needs it to begin again.
func (m *Membership) recordPins(ctx context.Context) error {
	m.pins.recording.Lock()
	defer m.pins.recording.Unlock()
	pins := m.trust.Pins()
	if m.pins.forgetting.Load() {
		return nil
	}
	if err := pinned.Write(ctx, m.o.Store, pins); err != nil {
		return err
	}
	for _, p := range pins {
		if _, fresh := m.pins.fresh.Load(p.ClusterID); fresh && p.Introducer == "" { // else the swap came while they were written
			m.pins.fresh.Delete(p.ClusterID)
			m.Hooks.Recorded(p.ClusterID)
		}
	}
	return nil
}

// Recorded reports whether the pin of a cluster is recorded, if a person swapped with it here. Before, the object that was pasted is all
// that says so, and must stay as it is: a start after a crash reads it.
func (m *Membership) Recorded(clusterID string) bool {
	_, fresh := m.pins.fresh.Load(clusterID)
	return !fresh || !m.trust.Swapped(clusterID)
}
