// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// startedKey has the time of the last start, by the clock of the API server.
const startedKey = "started"

// QuotaAtStart records that an agent of this cluster starts, and returns what may be written because of one other cluster
// from now on. That depends on when one started before: see package quota. A time that cannot be read, or is in the future,
// counts as now.
func (i *Identity) QuotaAtStart(ctx context.Context, now time.Time) (quota.Limits, error) {
	limits := quota.DefaultLimits()
	err := i.store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		limits = quota.DefaultLimits()
		if before := secret.Data[startedKey]; len(before) > 0 {
			since := time.Duration(0)
			if at, err := time.Parse(time.RFC3339, string(before)); err == nil {
				since = now.Sub(at)
			}
			limits = limits.AfterRestart(since)
		}
		secret.Data[startedKey] = []byte(now.UTC().Format(time.RFC3339))
		return true, nil
	})
	if err != nil {
		return limits, fmt.Errorf("record the start: %w", err)
	}
	return limits, nil
}
