// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pinned records which keys are pinned in Secret roster-trust of the private namespace.
package pinned

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

// Secret is the name of the Secret.
const Secret = "roster-trust"

// Store reads and writes Secrets of the private namespace.
type Store interface {
	Namespace() string
	Read(ctx context.Context, name string) (*kube.Secret, error)
	Replace(ctx context.Context, name string, data map[string][]byte) error
}

// record is a pin in the Secret, under its clusterID.
type record struct {
	PublicKey  []byte `json:"publicKey"`
	Introducer string `json:"introducer,omitempty"`
	// Basis says why it is pinned. Versions that did not know that a removed cluster is reserved recorded none: what they
	// pinned stands.
	Basis   string       `json:"basis,omitempty"`
	Vouched bool         `json:"vouched,omitempty"`
	Kept    bool         `json:"kept,omitempty"`
	Past    []trust.Word `json:"past,omitempty"`
	Role    string       `json:"role,omitempty"` // v1alpha1.RoleEdge, or nothing for a full member
}

// maxPast bounds how many words of the past are recorded of all pins: a Secret holds 1 MiB. More pins stay on the word of this
// cluster.
const maxPast = 1000

// Why a key is pinned.
const (
	Introduced = "introduced" // stands unless the cluster is removed under another key
	Admitted   = "admitted"   // by a person or an authority: stands
)

// Read reads the recorded pins. They win over the Cluster objects, which anybody with write access to this cluster
// may have edited while the agent was stopped.
func Read(ctx context.Context, secrets Store, log *slog.Logger) ([]trust.Pin, error) {
	secret, err := secrets.Read(ctx, Secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pins := make([]trust.Pin, 0, len(secret.Data))
	for id, data := range secret.Data {
		var r record
		if err := json.Unmarshal(data, &r); err != nil || len(r.PublicKey) != ed25519.PublicKeySize {
			log.Error("a recorded pin cannot be read and is ignored", "secret", secrets.Namespace()+"/"+Secret, "cluster", id)
			continue
		}
		pins = append(pins, trust.Pin{ClusterID: id, PublicKey: r.PublicKey, Introducer: r.Introducer, Admitted: r.Basis != Introduced, Vouched: r.Vouched, Kept: r.Kept, Past: r.Past, Edge: r.Role != ""})
	}
	return pins, nil
}

// Write makes the Secret hold exactly pins. It writes only if that is a change.
func Write(ctx context.Context, secrets Store, pins []trust.Pin) error {
	data, past := make(map[string][]byte, len(pins)), 0
	for _, pin := range pins {
		if len(validation.IsConfigMapKey(pin.ClusterID)) > 0 {
			continue // no Secret can keep it; no cluster has such an ID either
		}
		basis := Introduced
		if pin.Admitted {
			basis = Admitted
		}
		if past += len(pin.Past); past > maxPast && len(pin.Past) > 0 {
			pin.Past = []trust.Word{{For: trust.Lost}}
		}
		role := ""
		if pin.Edge {
			role = v1alpha1.RoleEdge
		}
		encoded, err := json.Marshal(record{pin.PublicKey, pin.Introducer, basis, pin.Vouched, pin.Kept, pin.Past, role})
		if err != nil {
			return fmt.Errorf("encode pin: %w", err)
		}
		data[pin.ClusterID] = encoded
	}
	return secrets.Replace(ctx, Secret, data)
}
