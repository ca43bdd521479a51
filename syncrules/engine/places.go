// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/where"
)

// placesRest is for how long places are not divided anew where that is costly: thousands of rules may come one after the other,
// and each would have all of them looked at. Meanwhile those that come are not in force.
const placesRest = 2 * time.Second

// settlePlacesLocked gives each rule a place, or says why it has none; older rules come first. One that leaves this cluster out,
// or cannot be used, takes none.
func (e *Engine) settlePlacesLocked(byAge []*rule) {
	rests := time.Now().Before(e.rules.rest)
	var asked []*rule
	var rules []inforce.Rule
	for _, r := range byAge {
		switch {
		case r.compiled == nil || r.compiled.Targets(e.clusters.local) == where.No:
			r.placed = false
			e.setExcessLocked(r, inforce.None)
		case !rests:
			asked, rules = append(asked, r), append(rules, inforce.Rule{Author: e.sharerLocked(r), Views: r.scopes})
		case !r.placed:
			e.setExcessLocked(r, inforce.Undecided)
		}
	}
	if rests {
		return
	}
	began := time.Now()
	excess, costly := inforce.Decide(rules, inforce.Admissions{Root: e.o.LocalClusterID, Parent: e.o.Parent, Share: e.o.Share})
	for i, r := range asked {
		r.placed = true
		e.setExcessLocked(r, excess[i])
	}
	e.rules.rest, e.rules.edits = time.Time{}, inforce.Edits{}
	if costly {
		rest := max(placesRest, 20*time.Since(began))
		e.rules.rest = time.Now().Add(rest)
		time.AfterFunc(rest, e.superviseSoon)
	}
}

// resettlePlacesLocked divides the places anew after a rest: rules may wait for that, and the shares may be others.
func (e *Engine) resettlePlacesLocked() {
	if !e.rules.rest.IsZero() && !time.Now().Before(e.rules.rest) {
		e.indexKindsLocked()
	}
}

// sharerLocked is the author of a rule, "" for this cluster.
func (e *Engine) sharerLocked(r *rule) string {
	if r.author == e.o.LocalClusterID {
		return ""
	}
	return r.author
}

func (e *Engine) setExcessLocked(r *rule, excess inforce.Excess) {
	if excess == r.excess {
		return
	}
	r.excess, r.surplus = excess, ""
	if excess != inforce.None {
		r.surplus = problem.OneLine("rule " + r.name + " is not in force: " + excess.Text(e.clusterNameLocked(cmp.Or(r.author, e.o.LocalClusterID))))
	}
	e.staleRuleLocked(r)
}
