// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"
	"maps"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	// MaxRules is how many rules of one author are in force: of the oldest ones, those whose watches fit.
	MaxRules = 256
	// MaxViews is how many watches they open at one cluster, another one or here. Rules share those that are equal.
	MaxViews = 2048
	// MaxAllRules is how many rules of all other clusters are in force: eight of each in a group of 500, or all that sixteen
	// may have.
	MaxAllRules = 16 * MaxRules
	// MaxAllViews is how many watches they open at one cluster: what four of them may have, where there is the memory.
	MaxAllViews = 4 * MaxViews
	// few is how many watches may be looked at for each rule that changes: what the rules of one author may name, each 256 namespaces.
	few = MaxRules * 256
)

// Excess is why a rule is not in force. Zero means that it is.
type Excess uint8

const (
	None Excess = iota
	// Rules and Views are that its author has too many, AllRules and AllViews that all authors together have, and this one
	// more than its share.
	Rules
	Views
	AllRules
	AllViews
	// Undecided is that there are too many, and who has what has not been looked at since the rule came.
	Undecided
)

// Text says it to people; all is how many watches the rules of all other clusters may open at one cluster.
func (x Excess) Text(author string, all int) string {
	const first = "; older rules come first: delete some of them, or make one rule of several"
	const share = " (clusters share by who admitted them); older rules come first. If agentctl members --tree shows clusters beside or below it that nobody knows, remove the one that admitted them; else delete rules, or make one rule of several"
	switch x {
	case Rules:
		return fmt.Sprintf("%d rules of cluster %s are in force here, the most that are%s", MaxRules, author, first)
	case Views:
		return fmt.Sprintf("with this rule, those of cluster %s would open more than %d watches (one for each kind and namespace) at one cluster, the most that are opened%s", author, MaxViews, first)
	case AllRules:
		return fmt.Sprintf("other clusters have more than %d rules, the most that are in force here, and cluster %s has used up its share%s", MaxAllRules, author, share)
	case AllViews:
		return fmt.Sprintf("the rules of other clusters need more than %d watches at one cluster, the most that are opened, and cluster %s has used up its share%s", all, author, share)
	case Undecided:
		return "there are too many rules here; whether this one has a place is looked at in a moment"
	case None:
	}
	return ""
}

// Share returns what each author gets at most of total if it wants everything, and the others what they want. It may take
// milliseconds where there are thousands, and is asked only where they want more than there is.
type Share func(total int, wants map[string]int) map[string]int

// Rule is what is decided about.
type Rule struct {
	Author string        // "" for the cluster itself, which shares with nobody
	Views  []place.Scope // the watches that it needs at another cluster, each once
	Here   []place.Scope // and those that it needs here, for its copies
	Asks   string        // what it asks of a cluster that it reads: with the same Asks, rules read the same ones
}

// Admissions are who admitted whom, and what each has by that.
type Admissions struct {
	Root   string                 // this cluster
	Parent func(id string) string // who admitted a cluster; "" where nobody knows. Without it this one admitted all
	Share  Share
}

// Decide says of each rule why it is not in force; older rules come first. Those of all other clusters open so many watches at one
// cluster at most. costly says that it took long, or that what there is was shared, which may be otherwise later: it is to be asked again
// after a while instead of for each rule that comes.
func Decide(rules []Rule, by Admissions, most int) (excess []Excess, costly bool) {
	excess = make([]Excess, len(rules))
	costly = shareRules(rules, excess, by)
	var p places
	for i := range rules {
		if excess[i] == None {
			excess[i] = p.take(&rules[i])
		}
	}
	if rooms := p.tooSmall(by, most); len(rooms) > 0 {
		shareViews(rules, excess, by, rooms)
		costly = true
	}
	return excess, costly || p.looked > few
}

// shareRules says which rules have no place among those of all where they are too many.
func shareRules(rules []Rule, excess []Excess, by Admissions) (shared bool) {
	var waiting []int
	of := map[string]int{}
	for i, r := range rules {
		if r.Author != "" && of[r.Author] < MaxRules {
			of[r.Author]++
			waiting = append(waiting, i)
		}
	}
	if len(waiting) <= MaxAllRules {
		return false
	}
	t := newTurns(by, func(int) int { return 1 })
	for _, i := range waiting {
		excess[i] = AllRules
		t.wait(rules[i].Author, i)
	}
	left := MaxAllRules
	t.run(func(i int) (charged int, more bool) {
		excess[i] = None
		left--
		return 1, left > 0
	})
	return true
}

// room is the watches of all other clusters' rules at one cluster, where they want more.
type room struct {
	of      func(*Rule) []place.Scope
	most    int
	limits  map[string]int // by author
	charged map[string]int
	open    map[place.Scope]struct{}
}

// fresh are the watches that a rule needs beside those that are open, if they are no more than the author's share.
func (m *room) fresh(r *Rule) (fresh []place.Scope, fits bool) {
	return without(m.open, m.of(r), min(m.limits[r.Author]-m.charged[r.Author], m.most-len(m.open)))
}

func (m *room) take(author string, fresh []place.Scope) {
	m.charged[author] += len(fresh)
	add(m.open, fresh)
}

// shareViews says which rules do not fit into the watches of all at one cluster. First each author has what fits into its share, the
// oldest rules first. That leaves something: what of a share is less than a rule needs, and what authors want of watches that they share.
// The other rules have it in turn, of which none takes anything from those.
func shareViews(rules []Rule, excess []Excess, by Admissions, rooms []*room) {
	take := func(r *Rule) (charged int, fits bool) {
		var fresh [2][]place.Scope
		for i, m := range rooms {
			if fresh[i], fits = m.fresh(r); !fits {
				return 0, false
			}
		}
		for i, m := range rooms {
			m.take(r.Author, fresh[i])
			charged += len(fresh[i])
		}
		return charged, true
	}
	t := newTurns(by, func(rule int) (cost int) {
		for _, m := range rooms {
			cost += len(m.of(&rules[rule]))
		}
		return cost
	})
	for i := range rules {
		r := &rules[i]
		if r.Author == "" || excess[i] != None {
			continue
		}
		charged, fits := take(r)
		if !fits {
			excess[i] = AllViews
			t.wait(r.Author, i)
			continue
		}
		t.charge(r.Author, charged)
	}
	for _, m := range rooms {
		for author := range m.limits {
			m.limits[author] = m.most // from here on turns share
			m.charged[author] = 0
		}
	}
	t.run(func(i int) (charged int, more bool) {
		charged, fits := take(&rules[i])
		if fits {
			excess[i] = None
		}
		return charged, true // the next one may need no more than there is
	})
}

// places are the places of all authors.
type places struct {
	taken  map[string]*taken
	looked int // at watches, also those that are equal
}

// taken is what the rules of one author have taken.
type taken struct {
	rules       int
	there, here need
}

// need is the watches that rules need at one cluster.
type need struct {
	// lists are what each of them needs, sum of them in all. Only where that is too much it matters which ones are equal.
	lists [][]place.Scope
	sum   int
	views map[place.Scope]struct{} // nil until then
}

// take gives a rule its place among those of its author, or says why there is none. It is asked about older rules first.
func (p *places) take(r *Rule) Excess {
	t := p.taken[r.Author]
	if t == nil {
		if p.taken == nil {
			p.taken = map[string]*taken{}
		}
		t = &taken{}
		p.taken[r.Author] = t
	}
	if t.rules >= MaxRules {
		return Rules
	}
	t.rules++ // also where the watches are too many, or somebody's thousands of rules would all be looked at
	p.looked += len(r.Views) + len(r.Here)
	there, fits := t.there.fresh(r.Views)
	if !fits {
		return Views
	}
	here, fits := t.here.fresh(r.Here)
	if !fits {
		return Views
	}
	t.there.add(there)
	t.here.add(here)
	return None
}

// fresh are the watches of these that are to be counted, if they are not too many.
func (n *need) fresh(views []place.Scope) (fresh []place.Scope, fits bool) {
	if n.views == nil && n.sum+len(views) <= MaxViews {
		return views, true
	}
	n.tellApart()
	return without(n.views, views, MaxViews-len(n.views))
}

func (n *need) add(fresh []place.Scope) {
	n.lists, n.sum = append(n.lists, fresh), n.sum+len(fresh)
	if n.views != nil {
		add(n.views, fresh)
	}
}

// tellApart finds out which watches are equal.
func (n *need) tellApart() {
	if n.views != nil {
		return
	}
	n.views = make(map[place.Scope]struct{}, n.sum)
	for _, list := range n.lists {
		add(n.views, list)
	}
}

// tooSmall are the rooms, at another cluster and here, that are too small for what all other clusters want.
func (p *places) tooSmall(by Admissions, most int) (rooms []*room) {
	there := func(t *taken) *need { return &t.there }
	here := func(t *taken) *need { return &t.here }
	if wants, ok := p.wants(there, most); !ok {
		rooms = append(rooms, newRoom(func(r *Rule) []place.Scope { return r.Views }, by.Share(most, wants), most))
	}
	if wants, ok := p.wants(here, most); !ok {
		rooms = append(rooms, newRoom(func(r *Rule) []place.Scope { return r.Here }, by.Share(most, wants), most))
	}
	return rooms
}

func newRoom(of func(*Rule) []place.Scope, shares map[string]int, most int) *room {
	return &room{of: of, most: most, limits: maps.Clone(shares), charged: map[string]int{}, open: make(map[place.Scope]struct{}, most)}
}

// wants are the watches that each author needs at one cluster, if they are more than most in all.
func (p *places) wants(of func(*taken) *need, most int) (wants map[string]int, ok bool) {
	sum := 0
	for author, t := range p.taken {
		if author != "" {
			sum += of(t).sum
		}
	}
	if sum <= most {
		return nil, true
	}
	all, wants := map[place.Scope]struct{}{}, map[string]int{}
	for author, t := range p.taken {
		if author == "" {
			continue
		}
		n := of(t)
		if wants[author] = n.sum; len(n.lists) > 1 { // a rule has none twice
			n.tellApart()
			wants[author] = len(n.views)
		}
		for _, list := range n.lists {
			if len(all) <= most {
				add(all, list)
			}
		}
	}
	return wants, len(all) <= most
}

// without are the watches that are not among those, if there are no more than most.
func without(these map[place.Scope]struct{}, views []place.Scope, most int) (fresh []place.Scope, fits bool) {
	for _, s := range views { // a rule has none twice
		if _, ok := these[s]; ok {
			continue
		}
		if len(fresh) >= most {
			return nil, false
		}
		fresh = append(fresh, s)
	}
	return fresh, true
}

func add(to map[place.Scope]struct{}, views []place.Scope) {
	for _, s := range views {
		to[s] = struct{}{}
	}
}

// First are at most so many of rules, which are the oldest first: of each author the oldest one, then the oldest of all.
func First[R any](rules []R, most int, author func(R) string) []R {
	var first, others []R
	seen := map[string]bool{}
	for _, r := range rules {
		if by := author(r); !seen[by] {
			seen[by] = true
			first = append(first, r)
		} else {
			others = append(others, r)
		}
	}
	return append(first, others...)[:min(most, len(rules))]
}
