// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// gatherQuotaLocked notes who is charged for which copy, whether so much may be written now (package quota), and what room the copies have. All workers may ask
// before the first of them has written: the quota is overdrawn then by what they write.
func (e *Engine) gatherQuotaLocked(j *job) {
	now := time.Now()
	for i := range j.claims {
		if c := &j.claims[i]; c.Standing == syncrules.Offered {
			e.roomLocked(c, now)
			e.accountLocked(c, j.key, now)
		}
	}
	e.callNextLocked(now)
}

// accountLocked notes the first account that a copy may be charged to now, or else that in which it waits for the shortest time: each author of a rule that makes the
// copy has one.
func (e *Engine) accountLocked(c *claim, k Key, now time.Time) {
	least := time.Duration(0)
	for _, author := range c.authors {
		account := quota.By{Author: author, Owner: c.Origin}.Account(e.o.LocalClusterID)
		if e.outcomes.quota.May(account, k, now) {
			c.account, c.waits = account, false
			return
		}
		if delay := e.outcomes.quota.Delay(account, k, now); !c.waits || delay < least {
			c.account, c.waits, least = account, true, delay
		}
	}
}

// fits says whether there is room for a copy of so many bytes. One that is there, whoever has it now, may become somewhat larger.
func (e *Engine) fits(j *job, owner string, bytes int64, local *unstructured.Unstructured) bool {
	more, beyond := copies.Weight(bytes), int64(0)
	if j.local != nil {
		more, beyond = bytes-packed.SizeOf(local.Object), e.o.Copies/8
	}
	return more <= 0 || more <= j.claimOf(owner).room+beyond
}

// roomLocked notes what room there is for a copy of what is claimed: that of the author who has most of those whose rules make it, and is charged.
func (e *Engine) roomLocked(c *claim, now time.Time) {
	for i, author := range c.authors {
		if room := e.local.copies.Room(quota.By{Author: author, Owner: c.Origin}, now); i == 0 || room > c.room {
			c.room, c.author = room, author
		}
	}
}

// noRoom is the problem of a copy that does not fit.
func (e *Engine) noRoom(j *job, owner string) *problem.Problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.errors().Problem(e.o.NoRoom(e.clusterNameLocked(j.claimOf(owner).author), e.clusterNameLocked(owner)), j.key, false)
}

// settleQuotaLocked charges what was written, or lets the key wait for its turn. A write that failed costs nothing: each key
// has its own back-off for that. The job is nil where nothing was decided.
func (e *Engine) settleQuotaLocked(k Key, j *job, out outcome) {
	now := time.Now()
	switch {
	case out.waits:
		e.outcomes.quota.Wait(j.claimOf(out.decision.Owner).account, k, now)
	case out.wrote && out.bytes > 0:
		e.outcomes.quota.Spend(j.claimOf(out.decision.Owner).account, k, out.bytes, now)
	case out.wrote && out.decision.Action == syncrules.MarkOrphan && j.local != nil && j.local.Author != "" && j.local.Author != e.o.LocalClusterID:
		account := quota.By{Author: j.local.Author, Owner: j.local.Owner}.Account(e.o.LocalClusterID)
		e.outcomes.quota.Owe(account, k, packed.SizeOf(out.decision.Object.Object), now)
	default:
		e.outcomes.quota.Drop(k)
	}
	e.callNextLocked(now)
	e.metrics.Waiting.Set(float64(e.outcomes.quota.Waiting()))
}

// callNextLocked puts up the keys whose turn comes next.
func (e *Engine) callNextLocked(now time.Time) {
	for next, after, ok := e.outcomes.quota.Next(now); ok; next, after, ok = e.outcomes.quota.Next(now) {
		e.queue.EnqueueAfter(next, after)
	}
}
