// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	// MaxRules is how many rules of one author are in force: of the oldest ones, those whose watches fit.
	MaxRules = 256
	// MaxViews is how many watches they open at one other cluster. Rules share those that are equal.
	MaxViews = 2048
	// MaxAllRules is how many rules of all other clusters are in force: eight of each in a group of 500, or all that sixteen
	// may have.
	MaxAllRules = 16 * MaxRules
	// MaxAllViews is how many watches they open at one other cluster: what four of them may have.
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

// Text says it to people.
func (x Excess) Text(author string) string {
	const first = "; older rules come first: delete some of them, or make one rule of several"
	const share = " (clusters share by who admitted them); older rules come first. If agentctl members --tree shows clusters beside or below it that nobody knows, remove the one that admitted them; else delete rules, or make one rule of several"
	switch x {
	case Rules:
		return fmt.Sprintf("%d rules of cluster %s are in force here, the most that are%s", MaxRules, author, first)
	case Views:
		return fmt.Sprintf("with this rule, those of cluster %s would open more than %d watches (one for each kind and namespace) at each other cluster, the most that are opened%s", author, MaxViews, first)
	case AllRules:
		return fmt.Sprintf("other clusters have more than %d rules, the most that are in force here, and cluster %s has used up its share%s", MaxAllRules, author, share)
	case AllViews:
		return fmt.Sprintf("the rules of other clusters need more than %d watches at each cluster, the most that are opened, and cluster %s has used up its share%s", MaxAllViews, author, share)
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
}

// Admissions are who admitted whom, and what each has by that.
type Admissions struct {
	Root   string                 // this cluster
	Parent func(id string) string // who admitted a cluster; "" where nobody knows. Without it this one admitted all
	Share  Share
}

// Decide says of each rule why it is not in force; older rules come first. costly says that it took long, or that what there is was
// shared, which may be otherwise later: it is to be asked again after a while instead of for each rule that comes.
func Decide(rules []Rule, by Admissions) (excess []Excess, costly bool) {
	excess = make([]Excess, len(rules))
	shared := shareRules(rules, excess, by)
	var p places
	for i, r := range rules {
		if excess[i] == None {
			excess[i] = p.take(r.Author, r.Views)
		}
	}
	wants, ok := p.views()
	if ok {
		return excess, shared || p.looked > few
	}
	shareViews(rules, excess, by, wants)
	return excess, true
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

// shareViews says which rules do not fit into the watches of all. First each author has what fits into its share, the oldest rules first.
// That leaves something: what of a share is less than a rule needs, and what authors want of watches that they share. The other
// rules have it in turn, of which none takes anything from those.
func shareViews(rules []Rule, excess []Excess, by Admissions, wants map[string]int) {
	limits := by.Share(MaxAllViews, wants)
	open, charged := make(map[place.Scope]struct{}, MaxAllViews), map[string]int{}
	t := newTurns(by, func(rule int) int { return len(rules[rule].Views) })
	for i, r := range rules {
		if r.Author == "" || excess[i] != None {
			continue
		}
		fresh, fits := without(open, r.Views, min(limits[r.Author]-charged[r.Author], MaxAllViews-len(open)))
		if !fits {
			excess[i] = AllViews
			t.wait(r.Author, i)
			continue
		}
		charged[r.Author] += len(fresh)
		t.charge(r.Author, len(fresh))
		add(open, fresh)
	}
	t.run(func(i int) (charged int, more bool) {
		if fresh, fits := without(open, rules[i].Views, MaxAllViews-len(open)); fits {
			excess[i] = None
			add(open, fresh)
			charged = len(fresh)
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
	rules int
	// lists are what the rules need, sum of them in all. Only where that is too much it matters which ones are equal.
	lists [][]place.Scope
	sum   int
	views map[place.Scope]struct{} // nil until then
}

// take gives a rule its place among those of its author, or says why there is none. It is asked about older rules first.
func (p *places) take(author string, views []place.Scope) Excess {
	t := p.taken[author]
	if t == nil {
		if p.taken == nil {
			p.taken = map[string]*taken{}
		}
		t = &taken{}
		p.taken[author] = t
	}
	if t.rules >= MaxRules {
		return Rules
	}
	t.rules++ // also where the watches are too many, or somebody's thousands of rules would all be looked at
	p.looked += len(views)
	if !t.fits(views) {
		return Views
	}
	return None
}

// fits takes the watches, if they are not too many.
func (t *taken) fits(views []place.Scope) bool {
	if t.views == nil && t.sum+len(views) <= MaxViews {
		t.lists, t.sum = append(t.lists, views), t.sum+len(views)
		return true
	}
	t.tellApart()
	fresh, ok := without(t.views, views, MaxViews-len(t.views))
	if ok {
		add(t.views, fresh)
		t.lists, t.sum = append(t.lists, fresh), t.sum+len(fresh)
	}
	return ok
}

// tellApart finds out which watches are equal.
func (t *taken) tellApart() {
	if t.views != nil {
		return
	}
	t.views = make(map[place.Scope]struct{}, t.sum)
	for _, list := range t.lists {
		add(t.views, list)
	}
}

// views are the watches that each author needs, if they are more than there may be.
func (p *places) views() (wants map[string]int, ok bool) {
	sum := 0
	for author, t := range p.taken {
		if author != "" {
			sum += t.sum
		}
	}
	if sum <= MaxAllViews {
		return nil, true
	}
	all, wants := map[place.Scope]struct{}{}, map[string]int{}
	for author, t := range p.taken {
		if author == "" {
			continue
		}
		if wants[author] = t.sum; len(t.lists) > 1 { // a rule has none twice
			t.tellApart()
			wants[author] = len(t.views)
		}
		for _, list := range t.lists {
			if len(all) <= MaxAllViews {
				add(all, list)
			}
		}
	}
	return wants, len(all) <= MaxAllViews
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
