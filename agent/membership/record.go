// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

const (
	identitySecret = store.IdentitySecret
	departedKey    = "departed" // in identitySecret: the clusterIDs that were members when this cluster left
)

// Record is what an earlier run of the agent recorded: removed keys, the clusters that were left, and pins.
type Record struct {
	removals []removal
	departed []string
	pins     []trust.Pin
}

// ReadRecord reads the record. It fails if a Secret cannot be read, because the agent would trust removed keys without
// it.
func ReadRecord(ctx context.Context, secrets *store.Store, log *slog.Logger) (r Record, err error) {
	if r.removals, err = removals.Read(ctx, secrets, log); err != nil {
		return Record{}, err
	}
	if r.departed, err = readDeparted(ctx, secrets); err != nil {
		return Record{}, err
	}
	if r.pins, err = pinned.Read(ctx, secrets, log); err != nil {
		return Record{}, err
	}
	return r, nil
}

// GaveUp reports whether the key in this cluster's Cluster object is no longer its key: the cluster left under that
// key, or a person asked it to.
func (r Record) GaveUp(clusterID string, own *v1alpha1.Cluster) bool {
	key := payload.RecordedKey(own)
	if key == nil {
		return false
	}
	removed := slices.ContainsFunc(r.removals, func(held removal) bool {
		return held.ClusterID == clusterID && held.PublicKey.Equal(payload.AsKey(key)) && !held.Standing.Held
	})
	return removed || own.Annotations[v1alpha1.AnnotationLeave] == v1alpha1.RequestKey(key)
}

// readDeparted reads which clusters this one has left. An agent that took a Cluster without a clusterID for a member
// recorded an empty one.
func readDeparted(ctx context.Context, secrets *store.Store) ([]string, error) {
	secret, err := secrets.Read(ctx, identitySecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	if data := secret.Data[departedKey]; len(data) > 0 {
		if err := json.Unmarshal(data, &ids); err != nil {
			return nil, fmt.Errorf("read Secret %s/%s, key %s: %w", secrets.Namespace(), identitySecret, departedKey, err)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" }), nil
}

func recordDeparted(ctx context.Context, secrets *store.Store, ids []string) error {
	data, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode the clusters that were left: %w", err)
	}
	return secrets.SetKey(ctx, identitySecret, departedKey, data)
}
