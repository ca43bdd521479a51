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

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

const (
	// Secret is the first of the Secrets with removals; the next ones have the suffix -2, -3, … A removal takes about 450
	// bytes, and up to 3 KiB if names and clusterIDs are the longest, and many count for it or have not confirmed it. More than
	// maxWaiting that have not, as just after the order in a large group, are not listed: after a restart every member is asked.
	Secret = "roster-removals"
	// heldSecret is that of removals that are held: an earlier version would carry them out.
	heldSecret = Secret + "-held"
	maxWaiting = 8
	// maxBranch is how many are recorded that go with the head of their branch.
	maxBranch = 1000
	// maxBytes is what a Secret is filled up to. An API server takes 1 MiB.
	maxBytes = 700 << 10
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
	From    string   `json:"introducer,omitempty"` // Introducer
	Ended   bool     `json:"ended,omitempty"`
	Ordered bool     `json:"ordered,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
	All     bool     `json:"all,omitempty"` // AskAll: too many members wait to be listed
	// Standing is that of versions that hold removals. Others recorded what they had carried out.
	Standing removalguard.Standing `json:"standing,omitzero"`
}

// Read reads the recorded removals.
func Read(ctx context.Context, secrets Store, log *slog.Logger) (out []Removal, err error) {
	// A write that was interrupted leaves one that it moved in two Secrets, and an earlier version one held that it has carried out.
	known := map[string]bool{}
	for _, first := range []string{Secret, heldSecret} {
		recorded, err := readAll(ctx, secrets, first)
		if err != nil {
			return nil, err
		}
		for i, data := range recorded {
			for _, key := range slices.Sorted(maps.Keys(data)) {
				r, err := decode(data[key])
				switch {
				case err != nil:
					name := secrets.Namespace() + "/" + secretName(first, i)
					log.Error("a recorded removal cannot be read and is ignored; members send it again", "secret", name, "key", key, "error", err)
				case !known[key]:
					known[key] = true
					out = append(out, r)
				}
			}
		}
	}
	return out, nil
}

// Write makes the Secrets hold exactly these removals; of several of one key the last. It does not matter which Secret has which one,
// but those that are held have Secrets of their own. One that is held no more is among the others before it is missing there.
func Write(ctx context.Context, secrets Store, all []Removal) error {
	done, held := make(map[string][]byte, len(all)), map[string][]byte{}
	for _, r := range all {
		encoded, err := encode(r)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(r.PublicKey)
		key, in := r.ClusterID+"."+hex.EncodeToString(sum[:8]), done
		delete(done, key)
		delete(held, key)
		if r.Standing.Held {
			in = held
		}
		in[key] = encoded
	}
	if err := replaceAll(ctx, secrets, Secret, done); err != nil {
		return err
	}
	return replaceAll(ctx, secrets, heldSecret, held)
}

func encode(r Removal) ([]byte, error) {
	if len(r.Waiting) > maxWaiting {
		r.Waiting, r.AskAll = nil, true // only in this copy of it
	}
	if c := r.Standing.Charge; c != nil {
		one := *c
		if one.Branch = c.Branch[:min(len(c.Branch), maxBranch)]; c.Unit != r.ClusterID {
			one.Branch = nil // the head's record has it
		}
		r.Standing.Charge = &one
	}
	encoded, err := json.Marshal(record{
		Message: r.Message(), Strange: r.UnknownKey, Ended: r.Ended, Hearsay: r.UnverifiedAuthor, Voucher: r.Voucher, From: r.Introducer,
		Ordered: r.Ordered, Waiting: r.Waiting, All: r.AskAll, Basis: r.Basis, Standing: r.Standing,
	})
	if err != nil {
		return nil, fmt.Errorf("encode removal: %w", err)
	}
	return encoded, nil
}

func decode(encoded []byte) (Removal, error) {
	var r record
	if err := json.Unmarshal(encoded, &r); err != nil {
		return Removal{}, fmt.Errorf("decode removal: %w", err)
	}
	signed, err := replica.ParseRemoval(r.Message)
	if err != nil {
		return Removal{}, err
	}
	signed.Voucher, signed.Introducer, signed.Standing = r.Voucher, r.From, r.Standing
	return Removal{
		Removal: signed, UnknownKey: r.Strange, Ended: r.Ended, UnverifiedAuthor: r.Hearsay,
		Ordered: r.Ordered, Waiting: r.Waiting, AskAll: r.All, Basis: r.Basis,
	}, nil
}
