// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// So much of the registry is written because of all other clusters together, of Clusters and rules, and of their states: at once what a
// cluster writes that starts in a group of a thousand, two writes for each, and then so many a second. Each costs an API server ten
// milliseconds of a processor, and more where the object is large.
const (
	registryWrites          = 2048
	registryWritesPerSecond = 4
	// leastAfterRestart is the part of that which there is after any restart: the states of all clusters change then, twice.
	leastAfterRestart = 1.0 / 2
)

// OfRegistry returns limits for budgets of the registry. They have what limits allow, which have a Common with the copies, but no more than
// so many writes, which those that get the same limits have in common. own and parent are as in NewCommon.
func OfRegistry(limits quota.Limits, own string, parent func(id string) string) quota.Limits {
	few := limits // of each of two accounts, which is what all have
	few.Writes = quota.Bucket{Most: registryWrites / 2, PerSecond: registryWritesPerSecond / 2, First: registryWrites / 2}
	few.Writes.First *= max(leastAfterRestart, limits.Writes.First/limits.Writes.Most)
	registry := NewCommon(few, own, parent)
	limits.Common = both{limits.Common, registry}
	return limits
}

// both are bounds that hold both.
type both [2]quota.Bound

// Wait implements quota.Bound.
func (b both) Wait(of quota.Account, now time.Time) time.Duration {
	return max(b[0].Wait(of, now), b[1].Wait(of, now))
}

// Queue implements quota.Bound. Who waits for one holds up nobody where there is enough of the other.
func (b both) Queue(of quota.Account, after time.Duration, now time.Time) {
	for _, bound := range b {
		if bound.Wait(of, now) > 0 {
			bound.Queue(of, after, now)
		}
	}
}

// Spend implements quota.Bound.
func (b both) Spend(of quota.Account, bytes, writes float64, now time.Time) {
	for _, bound := range b {
		bound.Spend(of, bytes, writes, now)
	}
}
