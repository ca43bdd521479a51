// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"strconv"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
)

// OpenEpoch records and returns a new epoch, above floor and above every recorded one. It is recorded at the API server
// before anything is signed in it, so no two starts use the same epoch.
func (i *Identity) OpenEpoch(ctx context.Context, floor uint64) (uint64, error) {
	return i.nextEpoch(ctx, func(last uint64, _ *kube.Secret) uint64 { return max(last, floor) + 1 })
}

// ResumeEpoch returns the epoch to continue in, given the last epoch on disk. That is held, unless a later one is
// recorded: then another agent with another disk has published, and a new epoch begins. If the recorded epoch is
// earlier than held, the API server was restored from a backup, and a person has to confirm that as for any other
// restore: rolledBack marks it in the Secret, in the same update that writes the epoch back. rolledBack may be called
// several times.
func (i *Identity) ResumeEpoch(ctx context.Context, held uint64, rolledBack func(*kube.Secret)) (uint64, error) {
	return i.nextEpoch(ctx, func(last uint64, secret *kube.Secret) uint64 {
		switch {
		case held == 0 || last > held:
			return last + 1
		case last < held:
			rolledBack(secret)
		}
		return held
	})
}

// KeepEpoch records an epoch that this cluster publishes in, unless a later one is recorded: a restore of the API server
// from a backup may have brought back an earlier one.
func (i *Identity) KeepEpoch(ctx context.Context, held uint64) error {
	_, err := i.nextEpoch(ctx, func(last uint64, _ *kube.Secret) uint64 { return max(last, held) })
	return err
}

// nextEpoch records the epoch that choose returns. It writes only if that differs from the last one.
func (i *Identity) nextEpoch(ctx context.Context, choose func(last uint64, secret *kube.Secret) uint64) (epoch uint64, err error) {
	err = i.store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		last, err := lastEpoch(secret)
		if err != nil {
			return false, err
		}
		epoch = choose(last, secret)
		secret.Data[epochKey] = []byte(strconv.FormatUint(epoch, 10))
		return epoch != last, nil
	})
	if err != nil {
		return 0, fmt.Errorf("record epoch: %w", err)
	}
	return epoch, nil
}

func lastEpoch(secret *kube.Secret) (uint64, error) {
	text := string(secret.Data[epochKey])
	if text == "" {
		return 0, nil
	}
	last, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("key %s: %q is not a number", epochKey, text)
	}
	return last, nil
}
