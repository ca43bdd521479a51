// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
)

// collectTombstones frees the tombstones of this cluster: it publishes all its objects in a new epoch. The epoch is
// recorded first, so a crash in between only skips a number.
func (p *Publisher) collectTombstones(ctx context.Context) error {
	p.reopening.Lock()
	defer p.reopening.Unlock()
	if p.o.Gate.Frozen() || !p.o.Replica.TooManyTombstones(p.o.Tombstones) {
		return nil
	}
	epoch, err := p.o.Epochs.Open(ctx, p.o.Replica.LastEpoch())
	if err != nil || p.o.Gate.Frozen() { // a freeze may begin during the request
		return err
	}
	p.o.Log.Info("many objects of this cluster were deleted: announcing the others in a new epoch", "epoch", epoch)
	messages, err := p.o.Replica.Reopen(epoch)
	p.o.Broadcast(messages...)
	if err != nil {
		p.announce.Trigger() // publishes what is missing, and completes the epoch
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	return nil
}

// reopen opens a higher epoch when a member holds entries of this cluster that this agent did not sign. Either the
// recorded epoch is from a backup, and so may be the rest of the API server; or another agent signs with this cluster's
// key. So a person has to confirm first. The new epoch is recorded before it is used.
func (p *Publisher) reopen(ctx context.Context) error {
	p.reopening.Lock() // waits for an epoch that is being opened
	defer p.reopening.Unlock()
	seen := p.o.Replica.OwnEpochSeen()
	if seen == 0 {
		return nil
	}
	if !p.o.Epochs.MayReopen() {
		p.o.Epochs.Freeze()
		return nil
	}
	epoch, err := p.o.Epochs.Open(ctx, seen)
	if err != nil || p.o.Gate.Frozen() {
		return err
	}
	p.o.Log.Warn("a member holds later entries of this cluster than this agent: opening a new epoch", "seen", seen, "epoch", epoch)
	messages, err := p.o.Replica.Reopen(epoch)
	p.o.Broadcast(messages...)
	if err != nil {
		p.announce.Trigger()
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	p.o.Epochs.Reopened()
	return nil
}
