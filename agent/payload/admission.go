// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// maxAdmission is how long the payload of an admission may be.
const maxAdmission = 1 << 10

// admission is what an admission says beside its name, the clusterID of who is admitted, and its origin, who admits it.
type admission struct {
	PublicKey []byte `json:"publicKey"`
	Via       string `json:"via,omitempty"`
	// Role is edge, or nothing for a full member. One with another role, as later versions may have it, admits nobody: it may be
	// less than an edge. Versions that know no roles do so with each.
	Role string `json:"role,omitempty"`
}

// AdmissionKey is the key of an admission in the replica.
func AdmissionKey(clusterID string) replica.Key {
	return replica.Key{Kind: replica.KindAdmission, Name: clusterID}
}

// EncodeAdmission returns the payload of an admission.
func EncodeAdmission(a trust.Admission) ([]byte, error) {
	said := admission{PublicKey: a.PublicKey, Via: a.Via}
	if a.Edge {
		said.Role = v1alpha1.RoleEdge
	}
	return json.Marshal(said)
}

// DecodeAdmission decodes the admission of a cluster by origin.
func DecodeAdmission(origin, clusterID string, payload []byte) (trust.Admission, error) {
	if len(payload) > maxAdmission {
		return trust.Admission{}, fmt.Errorf("%w: admission of %s by %s: %d bytes", ErrPayload, clusterID, origin, len(payload))
	}
	var p admission
	if err := json.Unmarshal(payload, &p); err != nil {
		return trust.Admission{}, fmt.Errorf("%w: admission of %s by %s: not JSON of an admission", ErrPayload, clusterID, origin)
	}
	switch {
	case !trust.ValidID(clusterID) || clusterID == origin || len(p.PublicKey) != ed25519.PublicKeySize:
		return trust.Admission{}, fmt.Errorf("%w: admission of %s by %s: not another cluster with its key", ErrPayload, clusterID, origin)
	case p.Via != "" && (!trust.ValidID(p.Via) || p.Via == clusterID || p.Via == origin):
		return trust.Admission{}, fmt.Errorf("%w: admission of %s by %s: via is not a third cluster", ErrPayload, clusterID, origin)
	case p.Role != "" && p.Role != v1alpha1.RoleEdge:
		return trust.Admission{}, fmt.Errorf("%w: admission of %s by %s: unknown role", ErrPayload, clusterID, origin)
	}
	return trust.Admission{Author: origin, ClusterID: clusterID, PublicKey: p.PublicKey, Via: p.Via, Edge: p.Role == v1alpha1.RoleEdge}, nil
}
