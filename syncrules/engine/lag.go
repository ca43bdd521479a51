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
	for i := range j.claims {
		c := &j.claims[i]
		if c.Origin != out.decision.Owner || c.arrived.IsZero() {
			continue
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
}

// clearArrivedLocked takes what a decision was made of as no news any more. Both claims and holders are in the order of their
// peers.
func (e *Engine) clearArrivedLocked(j *job) {
	i := 0
	for _, h := range e.holdersLocked(j.key) {
		for i < len(j.claims) && j.claims[i].Origin < h.v.peer {
			i++
		}
		if i == len(j.claims) {
			return
		}
		if c := &j.claims[i]; c.Origin == h.v.peer && !c.arrived.IsZero() {
			if ent := h.v.entries[h.from]; ent.arrived.Equal(c.arrived) {
				ent.arrived = time.Time{}
			}
		}
	}
}
