// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
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
		r.excluded = r.compiled != nil && r.compiled.Targets(e.clusters.local) == where.No
		switch {
		case r.compiled == nil || r.excluded:
			r.placed = false
			e.setExcessLocked(r, inforce.None)
		case !rests:
			asked, rules = append(asked, r), append(rules, inforce.Rule{Author: r.sharer(e.o.LocalClusterID), Views: r.scopes, Here: r.targets})
		case !r.placed:
			e.setExcessLocked(r, inforce.Undecided)
		}
	}
	if rests {
		return
	}
	began := time.Now()
	excess, costly := inforce.Decide(rules, e.admissions(), e.o.ViewsOfOthers())
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

func (e *Engine) admissions() inforce.Admissions {
	return inforce.Admissions{Root: e.o.LocalClusterID, Parent: e.o.Parent, Share: e.o.Share}
}

const (
	// viewsRest is for how long views are not chosen anew where rules need too many: others can have what they need change all the time,
	// and each choice may have some closed and listed again.
	viewsRest  = 10 * time.Second
	viewsAgain = time.Minute // and after this they are anyway: who admitted whom may be otherwise
)

// chooseViewsLocked chooses the views that are opened, where rules need more of them than Bounds.Watches allow, and returns the
// clusters of which others are opened now. What is needed since is not opened before the next choice.
func (e *Engine) chooseViewsLocked() (others map[string]bool) {
	w, began := &e.views.watches, time.Now()
	if began.Before(e.views.rest) || !w.Due() && (!w.TooMany() || began.Before(e.views.again)) {
		return nil
	}
	if !w.TooMany() {
		return w.Chosen(nil)
	}
	var rules []*rule
	needs, from := []inforce.Rule{}, inforce.Sources{}
	for _, r := range e.rules.byAge {
		if r.compiled != nil && !r.idle() && r.compiled.Targets(e.clusters.local) == where.Yes && (!r.moves || e.fittedLocked(r)) {
			n := inforce.Rule{Author: r.sharer(e.o.LocalClusterID), Views: r.scopes, Asks: fmt.Sprint(r.reads, r.spec.ClusterFeatureMatches)} // see from.Reads
			rules, needs = append(rules, r), append(needs, n)
		}
	}
	for _, id := range e.clusters.ids {
		if p := e.clusters.peers[id]; !p.Left && e.mayHaveViewsLocked(p) {
			from.IDs = append(from.IDs, id)
		}
	}
	from.Reads = func(rule, source int) (reads bool, looks int) {
		r, p := rules[rule], e.clusters.peers[from.IDs[source]]
		if r.reads && (e.clusters.snapshot.cluster == nil || p.seen.cluster == nil) {
			return false, 1
		}
		return !r.compiled.HasFeatures() || p.FeaturesKnown && r.compiled.FeaturesMatch(p.Features), 1 + len(r.spec.ClusterFeatureMatches)*len(p.Features)
	}
	opened := inforce.Choose(needs, from, w.Most(), e.admissions())
	rest := max(viewsRest, 20*time.Since(began))
	again := max(viewsAgain, rest)
	e.views.rest, e.views.again = began.Add(rest), began.Add(again)
	time.AfterFunc(rest, e.superviseSoon)
	time.AfterFunc(again, e.superviseSoon)
	for gk := range e.rules.kinds {
		e.kindDirtyLocked(gk) // what is left out is said, also where nothing else is opened now
	}
	return w.Chosen(opened)
}

// mayHaveViewsLocked says that the peer can be read, or was: nothing is known of all clusters that somebody invents.
func (e *Engine) mayHaveViewsLocked(p *peer) bool {
	return p.Source != nil || len(e.views.byPeer[p.ClusterID]) > 0
}

// sharer is the author of a rule, "" for the cluster that is here.
func (r *rule) sharer(here string) string {
	if r.author == here {
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
		r.surplus = problem.OneLine("rule " + r.name + " is not in force: " + excess.Text(e.clusterNameLocked(cmp.Or(r.author, e.o.LocalClusterID)), e.o.ViewsOfOthers()))
	}
	e.staleRuleLocked(r)
}
