// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

const (
	// removalsSecret is the first of the Secrets with removals; the next ones have the suffix -2, -3, … A Secret holds
	// 1 MiB. A removal takes about 450 bytes, and 1.1 KiB if its author has the longest names; an ordered one up to 66
	// bytes more for each member that has not confirmed it. More than removalsWaiting such members, as just after the
	// order in a large group, are not listed: after a restart every member is asked.
	removalsSecret  = "roster-removals"
	removalsEach    = 500
	removalsWaiting = 8
	identitySecret  = store.IdentitySecret
	departedKey     = "departed" // in identitySecret: the clusterIDs that were members when this cluster left
)

// removalRecord is a removal in a Secret. The JSON keys strange and hearsay are unknownKey and unverifiedAuthor.
type removalRecord struct {
	Message []byte   `json:"message"` // as it was signed
	Strange bool     `json:"strange,omitempty"`
	Hearsay bool     `json:"hearsay,omitempty"`
	Basis   string   `json:"basis,omitempty"`
	Voucher string   `json:"voucher,omitempty"`
	Ended   bool     `json:"ended,omitempty"`
	Ordered bool     `json:"ordered,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
	All     bool     `json:"all,omitempty"` // askAll: too many members wait to be listed
}

func removalsName(i int) string {
	if i == 0 {
		return removalsSecret
	}
	return fmt.Sprintf("%s-%d", removalsSecret, i+1)
}

// Record is what an earlier run of the agent recorded: removed keys, the clusters that were left, and pins.
type Record struct {
	removals []removal
	departed []string
	pins     []trust.Pin
}

// ReadRecord reads the record. It fails if a Secret cannot be read, because the agent would trust removed keys without
// it.
func ReadRecord(ctx context.Context, secrets *store.Store, log *slog.Logger) (r Record, err error) {
	if r.removals, err = readRemovals(ctx, secrets, log); err != nil {
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
		return held.ClusterID == clusterID && held.PublicKey.Equal(payload.AsKey(key))
	})
	return removed || own.Annotations[v1alpha1.AnnotationLeave] == v1alpha1.RequestKey(key)
}

func readRemovals(ctx context.Context, secrets *store.Store, log *slog.Logger) ([]removal, error) {
	var out []removal
	for i := 0; ; i++ {
		name := removalsName(i)
		secret, err := secrets.Read(ctx, name)
		if apierrors.IsNotFound(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			var record removalRecord
			err := json.Unmarshal(secret.Data[key], &record)
			var held replica.Removal
			if err == nil {
				held, err = replica.ParseRemoval(record.Message)
			}
			if err != nil {
				log.Error("a recorded removal cannot be read and is ignored; members send it again", "secret", secrets.Namespace()+"/"+name, "key", key, "error", err)
				continue
			}
			held.Voucher = record.Voucher
			out = append(out, removal{
				Removal: held, unknownKey: record.Strange, ended: record.Ended, unverifiedAuthor: record.Hearsay,
				ordered: record.Ordered, waiting: record.Waiting, askAll: record.All, basis: record.Basis,
			})
		}
	}
}

// recordRemovals makes the Secrets hold exactly these removals. It does not matter which Secret has which one.
func recordRemovals(ctx context.Context, secrets *store.Store, all []removal) error {
	for i, chunk := range slices.Collect(slices.Chunk(all, removalsEach)) {
		data := make(map[string][]byte, len(chunk))
		for _, held := range chunk {
			if len(held.waiting) > removalsWaiting {
				held.waiting, held.askAll = nil, true // only in this copy of it
			}
			record, err := json.Marshal(removalRecord{
				Message: held.Message(), Strange: held.unknownKey, Ended: held.ended, Hearsay: held.unverifiedAuthor, Voucher: held.Voucher,
				Ordered: held.ordered, Waiting: held.waiting, All: held.askAll, Basis: held.basis,
			})
			if err != nil {
				return fmt.Errorf("encode removal: %w", err)
			}
			sum := sha256.Sum256(held.PublicKey)
			data[held.ClusterID+"."+hex.EncodeToString(sum[:8])] = record
		}
		if err := secrets.Replace(ctx, removalsName(i), data); err != nil {
			return err
		}
	}
	return nil
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
