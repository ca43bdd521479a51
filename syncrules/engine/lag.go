// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/roster-mesh/roster/syncrules"
)

// tallyLagLocked notes how long a change of a source took, once: a copy that is restored later, or made anew or of another
// owner's, is another matter. Of a source with copies in several places the first tells.
func (e *Engine) tallyLagLocked(j *job, out outcome) {
	done := out.wrote && out.decision.Desired != nil
	if !done && (out.decision.Action != syncrules.None || out.problem != nil) {
		return
	}
	e.clearArrivedLocked(j)
	if !done {
		return
	}
	c := j.claimOf(out.decision.Owner)
	if c.arrived.IsZero() {
		return
	}
	lag := time.Since(c.arrived)
	for _, name := range c.names {
		if r := e.rules.byName[name]; r != nil {
			r.tally.Source(c.Origin).Lag = lag
			e.metrics.RuleLag(name, lag)
		}
	}
	if p := e.clusters.peers[c.Origin]; p != nil {
		e.metrics.PeerLag(p.name(), lag)
	}
}

// clearArrivedLocked takes what a decision was made of as no news any more.
func (e *Engine) clearArrivedLocked(j *job) {
	for _, h := range e.holdersLocked(j.key) {
		c := j.claimOf(h.v.peer)
		if ent := h.v.entries[h.from]; !c.arrived.IsZero() && ent.arrived.Equal(c.arrived) {
			ent.arrived = time.Time{}
		}
	}
}
