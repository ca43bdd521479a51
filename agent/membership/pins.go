// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/syncrules"
)

// pinRecord is a pin in the Secret roster-trust, under its clusterID.
type pinRecord struct {
	PublicKey  []byte `json:"publicKey"`
	Introducer string `json:"introducer,omitempty"`
	// Basis says why it is pinned. Versions that did not know that a removed cluster is reserved recorded none: what they
	// pinned stands.
	Basis string `json:"basis,omitempty"`
}

const (
	basisIntroduced = "introduced" // stands unless the cluster is removed under another key
	basisAdmitted   = "admitted"   // by a person or an authority: stands
)

const trustSecret = "roster-trust"

// readPins reads the recorded pins. They win over the Cluster objects, which anybody with write access to this cluster
// may have edited while the agent was stopped.
func readPins(ctx context.Context, secrets *store.Store, log *slog.Logger) ([]trust.Pin, error) {
	secret, err := secrets.Read(ctx, trustSecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pins := make([]trust.Pin, 0, len(secret.Data))
	for id, data := range secret.Data {
		var r pinRecord
		if err := json.Unmarshal(data, &r); err != nil || len(r.PublicKey) != ed25519.PublicKeySize {
			log.Error("a recorded pin cannot be read and is ignored", "secret", secrets.Namespace()+"/"+trustSecret, "cluster", id)
			continue
		}
		pins = append(pins, trust.Pin{ClusterID: id, PublicKey: r.PublicKey, Introducer: r.Introducer, Admitted: r.Basis != basisIntroduced})
	}
	return pins, nil
}

// writePins makes the Secret hold exactly pins. It writes only if that is a change.
func writePins(ctx context.Context, secrets *store.Store, pins []trust.Pin) error {
	data := make(map[string][]byte, len(pins))
	for _, pin := range pins {
		if len(validation.IsConfigMapKey(pin.ClusterID)) > 0 {
			continue // no Secret can keep it; no cluster has such an ID either
		}
		basis := basisIntroduced
		if pin.Admitted {
			basis = basisAdmitted
		}
		record, err := json.Marshal(pinRecord{pin.PublicKey, pin.Introducer, basis})
		if err != nil {
			return fmt.Errorf("encode pin: %w", err)
		}
		data[pin.ClusterID] = record
	}
	return secrets.Replace(ctx, trustSecret, data)
}

// Swapped pins the key in a Cluster object that a person created here: the swap is the only trust anchor. The key in a
// copy that the agent wrote is pinned already, and editing such a copy changes no pin.
func (m *Membership) Swapped(c *v1alpha1.Cluster) {
	id := string(c.Spec.ClusterID)
	if c.Spec.Mesh == nil || len(c.Spec.Mesh.PublicKey) != ed25519.PublicKeySize || payload.Has(c, v1alpha1.AnnotationClusterDisabled) {
		return
	}
	if _, ended := m.ledger.lookup(m.o.ClusterID, m.o.Key); ended {
		return // members refuse this cluster's key; after a new key, this is a swap
	}
	pinned, known := m.trust.Key(id)
	if known && syncrules.Owner(c) == id && pinned.Equal(payload.AsKey(c.Spec.Mesh.PublicKey)) {
		return // a copy that the agent wrote, not a swap
	}
	if !known && syncrules.Owner(c) == id && m.trust.Reserved(id) {
		return // such a copy again, of before it was removed; or that of another member, who must not decide this
	}
	if err := m.trust.Pin(id, payload.AsKey(c.Spec.Mesh.PublicKey)); err != nil {
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
	if p.Introducer == "" && m.replica != nil { // an introduction comes from the replica itself
		m.replica.Swapped(p.ClusterID)
	}
	m.work.pins.Trigger()
	m.Hooks.Pinned(p.ClusterID)
}

// recordNoPins deletes the recorded pins. It waits for recordPins, which may be writing the pins of a moment ago.
func (m *Membership) recordNoPins(ctx context.Context) error {
	m.pins.recording.Lock()
	defer m.pins.recording.Unlock()
	return writePins(ctx, m.o.Store, nil)
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
	return writePins(ctx, m.o.Store, pins)
}
