// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"sync"
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// Common is a quota.Common that is safe for concurrent use: all budgets of an agent, and its engine, have it in common.
type Common struct {
	mu    sync.Mutex
	quota *quota.Common
}

// NewCommon returns what nobody has used, for budgets with these limits. What is written because of the own cluster does not count.
// parent is who admitted a cluster: see quota.NewCommon.
func NewCommon(limits quota.Limits, own string, parent func(id string) string) *Common {
	return &Common{quota: quota.NewCommon(limits, quota.AccountOf(own), parent, time.Now())}
}

// Wait is quota.Common.Wait.
func (c *Common) Wait(of quota.Account, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quota.Wait(of, now)
}

// Queue is quota.Common.Queue.
func (c *Common) Queue(of quota.Account, after time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota.Queue(of, after, now)
}

// Spend is quota.Common.Spend.
func (c *Common) Spend(of quota.Account, bytes, writes float64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota.Spend(of, bytes, writes, now)
}
