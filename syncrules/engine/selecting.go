// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
)

// takes is what an entry takes because of the rule at i.
func (a *entry) takes(i int, home Key) int64 {
	if a.destinations == nil || a.destinations[i].To.Many() || a.destinations[i] == (place.Destination{To: home}) {
		return selections.PerRule
	}
	return selections.PerPlace
}

// selectedLocked notes that an entry is held, or with -1 that it is not any more, and countDueLocked counts what was noted: of many entries together, what
// goes first. Where there is no room for it, selections end.
func (e *Engine) selectedLocked(v *view, from types.NamespacedName, ent *entry, n int64) {
	for i, name := range ent.rules {
		e.views.due[selections.Of{Rule: name, Cluster: v.peer}] += n * ent.takes(i, v.key(from))
	}
}

func (e *Engine) countDueLocked() {
	for len(e.views.due)+len(e.views.ending) > 0 {
		for _, grows := range [...]bool{false, true} {
			for of, more := range e.views.due {
				if more != 0 && more > 0 == grows {
					e.endLocked(e.views.selections.Count(of, e.ageLocked(of.Rule), more, time.Now()))
				}
			}
		}
		clear(e.views.due)
		e.letGoLocked()
	}
}

// countComingLocked counts what a list has brought so far, spreadLocked in how many places in namespaces a rule has copies of a peer's objects.
func (e *Engine) countComingLocked(peer, rule string, more int64) {
	e.endLocked(e.views.selections.Coming(selections.Of{Rule: rule, Cluster: peer}, e.ageLocked(rule), more, time.Now()))
}

func (e *Engine) spreadLocked(rule, peer string, places int) {
	e.endLocked(e.views.selections.Spread(selections.Of{Rule: rule, Cluster: peer}, e.ageLocked(rule), int64(places)*selections.PerPlace, time.Now()))
}

// respreadLocked is spreadLocked for all peers.
func (e *Engine) respreadLocked(rule string) {
	for peer, places := range e.namespaces.SpreadsLocked(rule) {
		e.spreadLocked(rule, peer, places)
	}
}

// ageLocked is whose a rule is, and since when it is here.
func (e *Engine) ageLocked(name string) (out selections.Rule) {
	if r := e.rules.byName[name]; r != nil {
		out = selections.Rule{Author: e.authorOf(r), Born: r.born}
	}
	return out
}

// countSoFar counts one more entry of a list, which goes on without rules whose selections end. It returns false where there is another feed by now.
func (f *feed) countSoFar(list *selections.List, from types.NamespacedName, ent *entry) bool {
	due := false
	for i, name := range ent.rules {
		due = list.Judge(name, ent.takes(i, f.v.key(from))) || due
	}
	if !due {
		return true
	}
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	list.Count(func(rule string, more int64) { f.e.countComingLocked(f.v.peer, rule, more) }, func(rule string) bool {
		return f.e.views.selections.Ended(selections.Of{Rule: rule, Cluster: f.v.peer})
	})
	return f.v.feed == f
}

// leavesOut says that the selection of a rule has ended since the watch began.
func (f *feed) leavesOut(rule string) bool { return f.judges[rule] == "" }

// leaveOutLocked leaves the rules out of a list that have ended meanwhile, and returns how many bytes are left.
func (f *feed) leaveOutLocked(entries map[types.NamespacedName]*entry) (bytes int64) {
	f.e.countDueLocked()
	for at, ent := range entries {
		if ent = ent.without(f.leavesOut, f.v.key(at)); ent == nil {
			delete(entries, at)
			f.v.gone.DropAll(at) // it is there
			continue
		}
		entries[at] = ent
		bytes += ent.size()
	}
	return bytes
}

// leaveLocked forgets an entry that only rules select which are left out. It is there, so that nothing proves to these that it is gone; what other rules
// made of it before counts as what a list lacks.
func (f *feed) leaveLocked(at types.NamespacedName) {
	f.v.gone.DropAll(at)
	if old := f.v.entries[at]; old != nil {
		f.e.dropEntryLocked(f.v, at)
		f.e.countDueLocked()
		f.e.lostLocked(f.v, at, old)
		f.touchLocked(at, old)
	}
}

// leftOut is leavesOut as it is now, to be asked without mu before hundreds of rules from the first one on are asked about an object, and where the copies
// would belong.
func (f *feed) leftOut(first int) func(rule string) bool {
	const many = 16
	if first < 0 || len(f.rules) < many {
		return func(string) bool { return false }
	}
	f.e.mu.Lock()
	judges := f.judges
	f.e.mu.Unlock()
	return func(rule string) bool { return judges[rule] == "" }
}

// without is the entry as if some rules did not select it, nil where no others do.
func (a *entry) without(out func(rule string) bool, home Key) *entry {
	if a == nil || !slices.ContainsFunc(a.rules, out) {
		return a
	}
	less := *a
	less.rules, less.destinations = nil, nil
	for i, name := range a.rules {
		if out(name) {
			continue
		}
		if less.rules = append(less.rules, name); a.destinations != nil {
			less.destinations = append(less.destinations, a.destinations[i])
		}
	}
	if less.destinations = less.destinations.UnlessHome(home); less.rules == nil {
		return nil
	}
	return &less
}

// endLocked has nothing more asked for what rules select, for a while. What is held of it is let go by letGoLocked, since this may be within an index.
func (e *Engine) endLocked(ended []selections.Of) {
	for _, of := range ended {
		e.views.ending = append(e.views.ending, of)
		if r := e.rules.byName[of.Rule]; r != nil {
			e.staleRuleLocked(r)
		}
		e.superviseSoon()
	}
}

func (e *Engine) letGoLocked() {
	everywhere, of := map[string]bool{}, map[string]map[string]bool{}
	for _, x := range e.views.ending {
		if x.Cluster == "" {
			everywhere[x.Rule] = true
			continue
		}
		if of[x.Cluster] == nil {
			of[x.Cluster] = map[string]bool{}
		}
		of[x.Cluster][x.Rule] = true
	}
	e.views.ending = nil
	for id, views := range e.views.byPeer {
		if len(everywhere) == 0 && len(of[id]) == 0 {
			continue
		}
		for _, v := range views {
			e.letGoOfLocked(v, func(rule string) bool { return everywhere[rule] || of[id][rule] })
		}
	}
}

// letGoOfLocked makes a view, and its watch, one without some rules. What goes missing meanwhile counts together for the guards of these, as after an outage.
func (e *Engine) letGoOfLocked(v *view, out func(rule string) bool) {
	known := []*map[string]string{&v.judges}
	if v.feed != nil {
		known = append(known, &v.feed.judges)
	}
	for _, judges := range known {
		gone := slices.DeleteFunc(slices.Collect(maps.Keys(*judges)), func(rule string) bool { return !out(rule) })
		if len(gone) > 0 {
			*judges = maps.Clone(*judges)
		}
		for _, rule := range gone {
			delete(*judges, rule)
			if r := e.rules.byName[rule]; r != nil {
				r.guard.Doubt(v.peer)
			}
		}
	}
	for at, ent := range v.entries {
		switch less := ent.without(out, v.key(at)); less {
		case ent:
		case nil:
			e.dropEntryLocked(v, at)
		default:
			e.putEntryLocked(v, at, less)
		}
	}
}

// superviseSelectionsLocked has those tried again whose time has come, looked for once a minute.
func (e *Engine) superviseSelectionsLocked() {
	e.countDueLocked()
	exists := func(of selections.Of) bool {
		return e.rules.byName[of.Rule] != nil && e.clusters.peers[of.Cluster] != nil && !e.clusters.peers[of.Cluster].Left
	}
	for _, name := range e.views.selections.Again(exists, time.Now()) {
		if r := e.rules.byName[name]; r != nil {
			e.staleRuleLocked(r)
		}
	}
	if e.views.selections.Any() && !e.views.retrying {
		e.views.retrying = true
		time.AfterFunc(time.Minute, func() {
			e.mu.Lock()
			e.views.retrying = false
			e.mu.Unlock()
			e.superviseSoon()
		})
	}
}

// endedLocked says that there is no room for what a rule selects of a peer.
func (e *Engine) endedLocked(r *rule, peer string) bool {
	return e.views.selections.Ended(selections.Of{Rule: r.name, Cluster: peer})
}

// authorOf is the cluster that a rule is from.
func (e *Engine) authorOf(r *rule) string { return cmp.Or(r.author, e.o.LocalClusterID) }

// authorsOf are the clusters that rules are from, that of the oldest one first.
func (e *Engine) authorsOf(rules []*rule) (authors []string) {
	if len(rules) > 1 {
		rules = slices.SortedFunc(slices.Values(rules), byAge)
	}
	for _, r := range rules {
		if author := e.authorOf(r); !slices.Contains(authors, author) {
			authors = append(authors, author)
		}
	}
	return authors
}

// authorsLocked is the same of the names of rules, as far as these are there.
func (e *Engine) authorsLocked(names []string) []string {
	rules := make([]*rule, 0, len(names))
	for _, name := range names[:min(len(names), maxMakers)] {
		if r := e.rules.byName[name]; r != nil {
			rules = append(rules, r)
		}
	}
	return e.authorsOf(rules)
}

// allAuthorsLocked are the clusters that all rules are from.
func (e *Engine) allAuthorsLocked() []string {
	authors := map[string]struct{}{}
	for _, r := range e.rules.byName {
		authors[e.authorOf(r)] = struct{}{}
	}
	return slices.Collect(maps.Keys(authors))
}

// maxMakers is how many rules make a copy at most. Their names are in its annotations, for which an object has 256 KiB, so that more of them could have no
// copy made of an object that they select beside somebody else's rule.
const maxMakers = 64

// makersOf are those of the rules that ask for a copy that make it, by name: of each author the oldest one, then the oldest of all.
func (e *Engine) makersOf(rules []*rule) []*rule {
	if len(rules) <= maxMakers {
		return rules
	}
	makers := inforce.First(slices.SortedFunc(slices.Values(rules), byAge), maxMakers, e.authorOf)
	slices.SortFunc(makers, func(a, b *rule) int { return strings.Compare(a.name, b.name) })
	return makers
}

func byAge(a, b *rule) int {
	return cmp.Or(a.born.Compare(b.born), strings.Compare(a.name, b.name))
}

// crowdedLocked says that as many rules made a copy as can, and that others may ask for it which are not among them and of which not everything is known: then
// it stays as it is.
func (e *Engine) crowdedLocked(j *job, p *peer, from Key, mine *copies.Copy) bool {
	if mine == nil || len(mine.Rules) < maxMakers || j.kind == nil {
		return false
	}
	return slices.ContainsFunc(j.kind.writers, func(r *rule) bool {
		return r.kind() == from.GroupKind && r.makes(j.key) && e.mayAskLocked(r, p.ClusterID) && !e.viewsLiveLocked(r, p.ClusterID)
	})
}
