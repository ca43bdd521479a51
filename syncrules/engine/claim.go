// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
	"github.com/roster-mesh/roster/syncrules/fanout"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// claim is a syncrules.Claim in the making.
type claim struct {
	syncrules.Claim
	rules   []*syncrules.Rule
	names   []string
	object  packed.Object
	content uint64 // of what a copy would be but for the owner's mark
	cluster *v1alpha1.Cluster
	arrived time.Time
	authors []string      // of rules, the oldest first
	author  string        // the one of them that has most room for the copy
	room    int64         // so much
	account quota.Account // that is charged
	waits   bool          // for its quota
}

// findClaim is where the claim of a cluster is, or would be: they are in the order of their origins.
func (j *job) findClaim(id string) (i int, found bool) {
	return slices.BinarySearchFunc(j.claims, id, func(c claim, id string) int { return strings.Compare(c.Origin, id) })
}

// claimOf is the claim of a cluster; an empty one if it has none.
func (j *job) claimOf(id string) *claim {
	if i, found := j.findClaim(id); found {
		return &j.claims[i]
	}
	return &claim{}
}

// surplus is a source that does not get the place that a rule has for its copy: another one of its cluster has it.
type surplus struct {
	origin string
	from   Key
	rules  []string
}

// gatherClaimsLocked asks the peers whose claims can matter, in order: the owner of the copy, and those that have an
// entry for the place.
func (e *Engine) gatherClaimsLocked(j *job) {
	owner := ""
	if j.local != nil {
		owner = j.local.Owner
	}
	held := e.holdersLocked(j.key)
	for owner != "" || len(held) > 0 {
		id := owner
		if len(held) > 0 && (owner == "" || held[0].v.peer <= owner) {
			id = held[0].v.peer
		}
		n := 0
		for n < len(held) && held[n].v.peer == id {
			n++
		}
		var mine *copies.Copy
		if id == owner {
			mine, owner = j.local, ""
		}
		if p := e.clusters.peers[id]; p != nil && !p.Left {
			if c, ok := e.claimOfPeerLocked(j, p, held[:n], mine); ok {
				j.claims = append(j.claims, c)
			}
		}
		held = held[n:]
	}
}

// claimOfPeerLocked is the claim of one peer, which may have several sources for the place: that of the copy which is
// here, if it is the peer's, keeps it for as long as it asks for it; else the first one has it.
func (e *Engine) claimOfPeerLocked(j *job, p *peer, held []holding, mine *copies.Copy) (best claim, found bool) {
	if mine != nil {
		from := mine.Source(j.key)
		first, n := sourceIn(held, from)
		best, found = e.claimOfLocked(j, p, from, held[first:first+n], mine)
		if n == len(held) {
			return best, found
		}
		held = slices.Concat(held[:first], held[first+n:])
	}
	for len(held) > 0 {
		from := held[0].v.key(held[0].from)
		_, n := sourceIn(held, from)
		c, ok := e.claimOfLocked(j, p, from, held[:n], nil)
		held = held[n:]
		switch {
		case !ok:
		case !found, c.Standing == syncrules.Offered && (best.Standing == syncrules.Gone || best.Standing == syncrules.Released || mine == nil && best.Standing != syncrules.Offered):
			best, found = c, true
		case c.Standing == syncrules.Offered:
			j.surplus = append(j.surplus, surplus{p.ClusterID, from, c.names})
		}
	}
	return best, found
}

// sourceIn are the n holdings, from the first on, of one source.
func sourceIn(held []holding, from Key) (first, n int) {
	for first < len(held) && held[first].v.key(held[first].from) != from {
		first++
	}
	for first+n < len(held) && held[first+n].v.key(held[first+n].from) == from {
		n++
	}
	return first, n
}

// claimOfLocked sums up what rules say about one source of a peer: those that select it for the place, and those that
// made the copy of it which is here. Several may: then the copy is as all of them want it, and it stays as it is
// while one of those that made it has nothing to say.
func (e *Engine) claimOfLocked(j *job, p *peer, from Key, held []holding, mine *copies.Copy) (claim, bool) {
	c := claim{Claim: syncrules.Claim{Origin: p.ClusterID, Standing: syncrules.Unknown}, cluster: p.seen.cluster}
	if p.Refused != "" {
		c.Standing, c.Reason = syncrules.Held, p.Refused
		return c, mine != nil
	}
	if e.crowdedLocked(j, p, from, mine) {
		c.Standing, c.Reason = syncrules.Unknown, fmt.Sprintf("%d rules made it, and not everything is known of others that may ask for it", maxMakers)
		return c, true
	}
	var s syncrules.Summary
	rules := e.selectingLocked(held, j.key)
	if mine != nil {
		for _, name := range mine.Rules {
			i, ok := slices.BinarySearchFunc(rules, name, func(r *rule, name string) int { return strings.Compare(r.name, name) })
			if r := e.rules.byName[name]; r == nil {
				s.Weigh(syncrules.RuleGone(name, mine.RuleDeletion))
			} else if !ok {
				rules = slices.Insert(rules, i, r)
			}
		}
	}
	offering := rules[:0] // no more are written than were read
	for _, r := range rules {
		maker := mine
		if mine != nil && !slices.Contains(mine.Rules, r.name) {
			maker = nil
		}
		evidence, ent := e.evidenceLocked(j, r, p, from, maker)
		s.Weigh(evidence)
		if ent != nil && ent.held == "" {
			c.names, c.object, c.arrived, c.content = ent.rules, ent.object, ent.arrived, ent.sum
			offering = append(offering, r)
		}
	}
	if !slices.EqualFunc(c.names, offering, func(name string, r *rule) bool { return name == r.name }) {
		c.names = make([]string, len(offering)) // some of the rules that select it do not ask for this copy
		for i, r := range offering {
			c.names[i] = r.name
		}
	}
	makers := e.makersOf(offering)
	for _, r := range makers {
		c.rules = append(c.rules, r.compiled)
	}
	c.authors = e.authorsOf(makers)
	c.content = e.contentOf(c.content, makers, p)
	var heard bool
	c.Claim, heard = s.Conclude(c.Claim, len(c.rules) > 0)
	c.Adopters = syncrules.Adopters(c.rules)
	return c, heard
}

// contentOf hashes what a claim brings: what the source has, and the rules, in their present form, that make a
// copy of it.
func (e *Engine) contentOf(sum uint64, rules []*rule, p *peer) uint64 {
	for _, r := range rules {
		sum = e.hash.With(sum, r.serial)
		if r.reads { // the clusters, one of which is no other peer's
			sum = e.hash.With(sum, p.seen.serial, e.clusters.snapshot.serial)
		}
	}
	return sum
}

// selectingLocked are the rules that select entries of one source for a place, by name.
func (e *Engine) selectingLocked(held []holding, key Key) []*rule {
	var rules []*rule
	for _, h := range held {
		rules = append(rules, e.selectorsLocked(h.v, h.v.entries[h.from], key)...)
	}
	if len(held) > 1 {
		slices.SortFunc(rules, func(a, b *rule) int { return strings.Compare(a.name, b.name) })
		rules = slices.Compact(rules)
	}
	return rules
}

// selectorsLocked are the rules that select an entry for a place, by name.
func (e *Engine) selectorsLocked(v *view, ent *entry, key Key) []*rule {
	rules := make([]*rule, 0, len(ent.rules))
	for i, name := range ent.rules {
		if ent.destinations != nil && !ent.destinations[i].Reaches(key) {
			continue
		}
		if r := e.rules.byName[name]; r != nil && r.kind() == v.scope.GVK.GroupKind() {
			rules = append(rules, r)
		}
	}
	return rules
}

// evidenceLocked is what is known about one rule and one source of a peer; mine is the local copy if the rule made it. The
// entry is that of the source, if it is present and the rule copies it.
func (e *Engine) evidenceLocked(j *job, r *rule, p *peer, from Key, mine *copies.Copy) (out syncrules.Evidence, ent *entry) {
	out = syncrules.Evidence{Rule: r.name, Cluster: p.name(), Made: mine != nil}
	out.Relation, _, out.Why = e.relateLocked(r, p)
	if r.compiled != nil {
		out.Deletion, out.RuleDeletion = r.compiled.Deletion(), r.compiled.RuleDeletion()
	}
	if !j.observed {
		out.Observes = r.observes()
	}
	if out.Relation != syncrules.Asks || out.Observes != "" {
		return out, nil
	}
	out.Found, ent = e.findLocked(r, p.ClusterID, from, j.key)
	switch out.Found {
	case syncrules.FoundPresent:
		out.Obstacle = ent.held
		return out, ent
	case syncrules.FoundLacking, syncrules.FoundDeleted, syncrules.FoundElsewhere:
		out.Why = e.outsideLocked(r, ent, j.key, fanout.No)
		if mine != nil {
			out.Unread = !r.covers(from) && !e.viewsLiveLocked(r, p.ClusterID)
			out.Selected, out.Suspect = mine.SelectedBy(r.name, r.selection), r.guard.Suspect()
			out.Counted, out.Complete = r.guard.Judged(p.ClusterID) && !e.supervisor.rules[r.name], e.localsCompleteLocked(r) // not before an edit is judged
		}
	case syncrules.FoundUnknown:
		out.Why = e.outsideLocked(r, ent, j.key, fanout.Unknown)
	case syncrules.FoundAwaited, syncrules.FoundFaulty:
	}
	return out, nil
}
