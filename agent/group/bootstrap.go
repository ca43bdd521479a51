// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/identity"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/agentrecord"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica/journal"
)

// errOvertaken is returned when another agent changed the record first.
var errOvertaken = errors.New("another agent of this cluster changed the record first")

// bootstrapRecord is the Secret in which the agents of a cluster record their raft group. It implements
// journal.RecordStore.
type bootstrapRecord struct {
	store    *store.Store
	identity *identity.Identity
	key      ed25519.PublicKey // of the cluster, as far as this agent knows
}

// Read implements journal.RecordStore.
func (b bootstrapRecord) Read(ctx context.Context) (journal.Record, error) {
	secret, err := b.read(ctx)
	if err != nil || secret == nil {
		return journal.Record{}, err
	}
	return recordOf(secret), nil
}

// read returns nil if there is no record.
func (b bootstrapRecord) read(ctx context.Context) (*kube.Secret, error) {
	secret, err := b.store.Read(ctx, agentrecord.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, err
}

func recordOf(secret *kube.Secret) journal.Record {
	return journal.Record{
		Group: string(secret.Data[agentrecord.Group]), Founder: string(secret.Data[agentrecord.Founder]), Key: string(secret.Data[agentrecord.Key]),
	}
}

// Replace implements journal.RecordStore.
func (b bootstrapRecord) Replace(ctx context.Context, before, now journal.Record) error {
	secret, err := b.read(ctx)
	if err != nil {
		return err
	}
	if before.Key != "" && before.Key != now.Key {
		if err := b.checkKey(ctx); err != nil {
			return err
		}
	}
	data := map[string][]byte{
		agentrecord.Group: []byte(now.Group), agentrecord.Founder: []byte(now.Founder), agentrecord.Key: []byte(now.Key),
	}
	switch {
	case secret == nil && before != (journal.Record{}), secret != nil && recordOf(secret) != before:
		return errOvertaken
	case secret == nil:
		_, err = b.store.Secrets().Create(ctx, b.store.NewSecret(agentrecord.Name, data))
	default:
		secret.Data = data
		_, err = b.store.Secrets().Update(ctx, secret)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return errOvertaken
	}
	if err != nil {
		return fmt.Errorf("record Secret %s/%s: %w", b.store.Namespace(), agentrecord.Name, err)
	}
	return nil
}

// checkKey returns ErrTurned when the cluster has another key than this agent uses. Call it after the record was read:
// whoever wrote the record had the cluster's key at that time, so of two agents with different keys only one starts
// again.
func (b bootstrapRecord) checkKey(ctx context.Context) error {
	_, err := b.identity.Key(ctx, "", b.key)
	if errors.Is(err, identity.ErrLost) {
		return fmt.Errorf("%w: %w", journal.ErrOtherGroup, err)
	}
	return err
}

// claimLeadership is the first step of a leader: it checks that its group is still that of the cluster, and records
// that the group has a leader. If the group was recovered from a survivor, it opens an epoch above held.
func (b bootstrapRecord) claimLeadership(ctx context.Context, own journal.Status, held uint64) error {
	return b.confirm(ctx, own, func() error {
		_, err := b.identity.OpenEpoch(ctx, held)
		return err
	})
}

// confirm returns ErrTurned when the group is no longer that of the cluster. It deletes the reports of agents that saw
// no leader. afterRecovery runs once after a recovery; with nil, that is left to a later call.
func (b bootstrapRecord) confirm(ctx context.Context, own journal.Status, afterRecovery func() error) error {
	return store.OnConflict(func() error {
		secret, err := b.read(ctx)
		if err != nil {
			return err
		}
		if secret == nil {
			return b.Replace(ctx, journal.Record{}, journal.Record{Group: own.Group, Founder: own.ServerID, Key: v1alpha1.RequestKey(b.key)})
		}
		record := recordOf(secret)
		if record.Group != own.Group {
			return journal.ErrOtherGroup
		}
		if len(secret.Data[agentrecord.Recovered]) > 0 {
			if afterRecovery == nil {
				return nil
			}
			if err := afterRecovery(); err != nil {
				return err
			}
		} else if len(secret.Data[agentrecord.SurvivorList]) == 0 && record.Key != "" {
			return nil
		}
		secret.Data[agentrecord.Key] = []byte(v1alpha1.RequestKey(b.key)) // an earlier release did not write it
		delete(secret.Data, agentrecord.Recovered)
		delete(secret.Data, agentrecord.SurvivorList)
		_, err = b.store.Secrets().Update(ctx, secret)
		return err
	})
}

// addSurvivor records that this agent has no leader. People choose a survivor from these records.
func (b bootstrapRecord) addSurvivor(ctx context.Context, address, group string, now agentrecord.Survivor) error {
	return store.OnConflict(func() error {
		secret, err := b.read(ctx)
		if err != nil {
			return err
		}
		if secret == nil || recordOf(secret).Group != group || len(secret.Data[agentrecord.Recovered]) > 0 {
			return nil
		}
		survivors := agentrecord.Survivors{}
		if data := secret.Data[agentrecord.SurvivorList]; len(data) > 0 {
			if err := json.Unmarshal(data, &survivors); err != nil || survivors == nil {
				survivors = agentrecord.Survivors{}
			}
		}
		if survivors[address] == now {
			return nil
		}
		survivors[address] = now
		data, err := json.Marshal(survivors)
		if err != nil {
			return err
		}
		secret.Data[agentrecord.SurvivorList] = data
		_, err = b.store.Secrets().Update(ctx, secret)
		return err
	})
}
