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
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica/journal"
)

// errOvertaken is returned when another agent has changed the record first.
var errOvertaken = errors.New("another agent of this cluster was quicker")

// bootstrapRecord is the record of the agents of one cluster, a private Secret: which group is theirs. It implements
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

// read returns nil when there is none.
func (b bootstrapRecord) read(ctx context.Context) (*kube.Secret, error) {
	secret, err := b.store.Read(ctx, v1alpha1.AgentsSecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, err
}

func recordOf(secret *kube.Secret) journal.Record {
	return journal.Record{
		Group: string(secret.Data[v1alpha1.AgentsGroup]), Founder: string(secret.Data[v1alpha1.AgentsFounder]), Key: string(secret.Data[v1alpha1.AgentsKey]),
	}
}

// Replace implements journal.RecordStore.
func (b bootstrapRecord) Replace(ctx context.Context, before, now journal.Record) error {
	secret, err := b.read(ctx)
	if err != nil {
		return err
	}
	if before.Key != "" && before.Key != now.Key {
		if err := b.isKey(ctx); err != nil {
			return err
		}
	}
	data := map[string][]byte{
		v1alpha1.AgentsGroup: []byte(now.Group), v1alpha1.AgentsFounder: []byte(now.Founder), v1alpha1.AgentsKey: []byte(now.Key),
	}
	switch {
	case secret == nil && before != (journal.Record{}), secret != nil && recordOf(secret) != before:
		return errOvertaken
	case secret == nil:
		_, err = b.store.Secrets().Create(ctx, b.store.Fresh(v1alpha1.AgentsSecret, data))
	default:
		secret.Data = data
		_, err = b.store.Secrets().Update(ctx, secret)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return errOvertaken
	}
	if err != nil {
		return fmt.Errorf("record Secret %s/%s: %w", b.store.Namespace(), v1alpha1.AgentsSecret, err)
	}
	return nil
}

// isKey returns ErrTurned when the cluster has another key than this agent thinks. It is asked after the record was read:
// who recorded that one had the key that the cluster had then, so of two agents one is told to start again, and not each
// by the other.
func (b bootstrapRecord) isKey(ctx context.Context) error {
	_, err := b.identity.Key(ctx, "", b.key)
	if errors.Is(err, identity.ErrLost) {
		return fmt.Errorf("%w: %w", journal.ErrOtherGroup, err)
	}
	return err
}

// claimLeadership is the first thing that a leader does: it makes sure that its group is still the cluster's, and says that
// it has a leader. The epoch is above held when the group was recovered from a survivor.
func (b bootstrapRecord) claimLeadership(ctx context.Context, own journal.Status, held uint64) error {
	return b.hold(ctx, own, func() error {
		_, err := b.identity.OpenEpoch(ctx, held)
		return err
	})
}

// hold returns ErrTurned when the group is not the cluster's any more, and takes back what agents said that did not hear
// of their leader. What is to be done after a recovery may be left out, and done later.
func (b bootstrapRecord) hold(ctx context.Context, own journal.Status, afterRecovery func() error) error {
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
		if len(secret.Data[v1alpha1.AgentsRecovered]) > 0 {
			if afterRecovery == nil {
				return nil
			}
			if err := afterRecovery(); err != nil {
				return err
			}
		} else if len(secret.Data[v1alpha1.AgentsSurvivors]) == 0 && record.Key != "" {
			return nil
		}
		secret.Data[v1alpha1.AgentsKey] = []byte(v1alpha1.RequestKey(b.key)) // an earlier release leaves it out
		delete(secret.Data, v1alpha1.AgentsRecovered)
		delete(secret.Data, v1alpha1.AgentsSurvivors)
		_, err = b.store.Secrets().Update(ctx, secret)
		return err
	})
}

// addSurvivor records that this agent has no leader, for those who choose a survivor.
func (b bootstrapRecord) addSurvivor(ctx context.Context, address, group string, now v1alpha1.AgentSurvivor) error {
	return store.OnConflict(func() error {
		secret, err := b.read(ctx)
		if err != nil {
			return err
		}
		if secret == nil || recordOf(secret).Group != group || len(secret.Data[v1alpha1.AgentsRecovered]) > 0 {
			return nil
		}
		survivors := v1alpha1.AgentSurvivors{}
		if data := secret.Data[v1alpha1.AgentsSurvivors]; len(data) > 0 {
			if err := json.Unmarshal(data, &survivors); err != nil || survivors == nil {
				survivors = v1alpha1.AgentSurvivors{}
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
		secret.Data[v1alpha1.AgentsSurvivors] = data
		_, err = b.store.Secrets().Update(ctx, secret)
		return err
	})
}
