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

// OpenEpoch records and returns an epoch above every one that was recorded and above floor. It is on disk at the API
// server before anything is signed in it, so no two starts ever share an epoch.
func (i *Identity) OpenEpoch(ctx context.Context, floor uint64) (uint64, error) {
	return i.nextEpoch(ctx, func(last uint64, _ *kube.Secret) uint64 { return max(last, floor) + 1 })
}

// ResumeEpoch returns the epoch to go on in when what the disk holds ends in the epoch held. That is this one, unless
// another has been recorded since: by an agent with another disk. When the record is the older one the API server was
// restored from a backup, which is to be confirmed as any other restore: rolledBack marks that in the Secret, in the
// same update that writes the epoch back. It may be called several times.
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

// nextEpoch records the epoch that choose returns, knowing the last one. It writes only when that is another one.
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
