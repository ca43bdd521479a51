// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

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

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

const (
	// Secret is the first of the Secrets with removals; the next ones have the suffix -2, -3, … A Secret holds
	// 1 MiB. A removal takes about 450 bytes, and 1.1 KiB if its author has the longest names; an ordered one up to 66
	// bytes more for each member that has not confirmed it. More than maxWaiting such members, as just after the
	// order in a large group, are not listed: after a restart every member is asked.
	Secret     = "roster-removals"
	each       = 500
	maxWaiting = 8
)

// Removal is a removal that was merged, and how far it has been carried out in this cluster.
type Removal struct {
	replica.Removal
	UnknownKey       bool     // the key was neither pinned here nor in a Cluster object, or the removal is held
	Ended            bool     // that cluster's access to this one has ended; a Cluster object that appears later was created by somebody
	UnverifiedAuthor bool     // the author's key was not pinned here: another member vouched for it
	Ordered          bool     // requested in this cluster
	Waiting          []string // if ordered: clusterIDs of the members that have not confirmed it; shared, and so never changed in place
	HeldBy           []string // of Waiting, those that hold it until a person there confirms it; not recorded
	Basis            string   // on what the key was pinned here: one of pinned…, "" if it never was
	AskAll           bool     // recorded without the list of Waiting: Run asks every member
}

// Store reads and writes Secrets of the private namespace.
type Store interface {
	Namespace() string
	Read(ctx context.Context, name string) (*kube.Secret, error)
	Replace(ctx context.Context, name string, data map[string][]byte) error
}

// record is a removal in a Secret. The JSON keys strange and hearsay are unknownKey and unverifiedAuthor.
type record struct {
	Message []byte   `json:"message"` // as it was signed
	Strange bool     `json:"strange,omitempty"`
	Hearsay bool     `json:"hearsay,omitempty"`
	Basis   string   `json:"basis,omitempty"`
	Voucher string   `json:"voucher,omitempty"`
	Ended   bool     `json:"ended,omitempty"`
	Ordered bool     `json:"ordered,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
	All     bool     `json:"all,omitempty"` // AskAll: too many members wait to be listed
	// Standing is that of versions that hold removals. Others recorded what they had carried out.
	Standing removalguard.Standing `json:"standing,omitzero"`
}

func secretName(i int) string {
	if i == 0 {
		return Secret
	}
	return fmt.Sprintf("%s-%d", Secret, i+1)
}

// Read reads the recorded removals.
func Read(ctx context.Context, secrets Store, log *slog.Logger) ([]Removal, error) {
	var out []Removal
	for i := 0; ; i++ {
		name := secretName(i)
		secret, err := secrets.Read(ctx, name)
		if apierrors.IsNotFound(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			var r record
			err := json.Unmarshal(secret.Data[key], &r)
			var held replica.Removal
			if err == nil {
				held, err = replica.ParseRemoval(r.Message)
			}
			if err != nil {
				log.Error("a recorded removal cannot be read and is ignored; members send it again", "secret", secrets.Namespace()+"/"+name, "key", key, "error", err)
				continue
			}
			held.Voucher, held.Standing = r.Voucher, r.Standing
			out = append(out, Removal{
				Removal: held, UnknownKey: r.Strange, Ended: r.Ended, UnverifiedAuthor: r.Hearsay,
				Ordered: r.Ordered, Waiting: r.Waiting, AskAll: r.All, Basis: r.Basis,
			})
		}
	}
}

// Write makes the Secrets hold exactly these removals. It does not matter which Secret has which one.
func Write(ctx context.Context, secrets Store, all []Removal) error {
	for i, chunk := range slices.Collect(slices.Chunk(all, each)) {
		data := make(map[string][]byte, len(chunk))
		for _, held := range chunk {
			if len(held.Waiting) > maxWaiting {
				held.Waiting, held.AskAll = nil, true // only in this copy of it
			}
			encoded, err := json.Marshal(record{
				Message: held.Message(), Strange: held.UnknownKey, Ended: held.Ended, Hearsay: held.UnverifiedAuthor, Voucher: held.Voucher,
				Ordered: held.Ordered, Waiting: held.Waiting, All: held.AskAll, Basis: held.Basis, Standing: held.Standing,
			})
			if err != nil {
				return fmt.Errorf("encode removal: %w", err)
			}
			sum := sha256.Sum256(held.PublicKey)
			data[held.ClusterID+"."+hex.EncodeToString(sum[:8])] = encoded
		}
		if err := secrets.Replace(ctx, secretName(i), data); err != nil {
			return err
		}
	}
	return nil
}
