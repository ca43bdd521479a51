// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"hash/maphash"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Opened are watches at other clusters, by the clusterID.
type Opened map[string]map[place.Scope]struct{}

// Watches are those that rules in force need at other clusters. While they are no more than there may be, all are opened, otherwise those that
// were chosen.
type Watches struct {
	most, sum int
	wanted    map[kindAt]want
	chosen    Opened          // nil for all
	looked    map[kindAt]want // at that, when it was chosen
	// due says that others are wanted than when it was chosen, skipped that some were left out although nothing was chosen.
	due, skipped bool
}

type kindAt struct {
	cluster string
	kind    schema.GroupKind
}

// want is how many are wanted, and by which rules.
type want struct {
	n  int
	by uint64
}

// Most is how many there may be.
func (w *Watches) Most() int { return w.most }

// Limit says how many there may be.
func (w *Watches) Limit(most int) {
	w.due = w.due || most != w.most
	w.most = most
}

// Want says how many scopes of a kind are needed at a cluster now; by tells the rules that need them from others.
func (w *Watches) Want(cluster string, kind schema.GroupKind, n int, by uint64) {
	at, now := kindAt{cluster, kind}, want{n, by}
	was := w.wanted[at]
	if now == was {
		return
	}
	if w.wanted == nil {
		w.wanted = map[kindAt]want{}
	}
	w.sum += n - was.n
	if w.due = true; n == 0 {
		delete(w.wanted, at)
	} else {
		w.wanted[at] = now
	}
}

// Opens says whether a watch is to be opened, or to stay so. Of those that are too many since the last choice none is, until the next.
func (w *Watches) Opens(cluster string, s place.Scope, open bool) bool {
	switch _, chosen := w.chosen[cluster][s]; {
	case w.chosen != nil:
		return chosen
	case open, !w.TooMany():
		return true
	}
	w.skipped = true
	return false
}

// LeavesOut says that a watch is not opened because there would be too many. Where nothing was wanted when it was chosen, nothing was looked
// at yet.
func (w *Watches) LeavesOut(cluster string, s place.Scope) bool {
	_, chosen := w.chosen[cluster][s]
	at := kindAt{cluster, s.GVK.GroupKind()}
	return w.chosen != nil && !chosen && w.looked[at].n > 0
}

// TooMany says that more are needed than there may be.
func (w *Watches) TooMany() bool { return w.sum > w.most }

// Due says that it is to be chosen anew.
func (w *Watches) Due() bool { return w.due && (w.chosen != nil || w.skipped || w.TooMany()) }

// Chosen takes in what was chosen, nil for all, and returns the clusters at which other watches are opened now than before.
func (w *Watches) Chosen(chosen Opened) (others map[string]bool) {
	others = map[string]bool{}
	if w.chosen == nil || chosen == nil {
		for at := range w.wanted {
			others[at.cluster] = true
		}
	}
	for _, opened := range [...]Opened{w.chosen, chosen} {
		for id := range opened {
			if !maps.Equal(w.chosen[id], chosen[id]) {
				others[id] = true
			}
		}
	}
	if w.looked = nil; chosen != nil {
		w.looked = maps.Clone(w.wanted)
	}
	w.chosen, w.due, w.skipped = chosen, false, false
	return others
}

const (
	// maxLooks is at how much Choose looks, if there is so much: that takes less than a second.
	maxLooks = 4 << 20
	// fewLooks is at how much in a turn at least, and what counts like a watch, and fewViews how many are opened in one.
	fewLooks = 64
	fewViews = 16
)

// Sources are the clusters that are read. Reads says whether a rule reads one, and how much it looked at to know: 1 or more.
type Sources struct {
	IDs   []string
	Reads func(rule, source int) (reads bool, looks int)
}

// Choose returns which watches are opened at other clusters, where more than most are needed. The rules are those in force, the oldest first.
//
// Authors have their turns, each time one of the branch that has least (turns). It has some of what its oldest rule needs at a source, at
// its next turns the rest, then what the next rule needs there, and then comes the next source; these are in an order in which each branch has its
// turn, too. So neither authors nor sources that a member invents keep anybody from reading others. A watch counts for the
// first author that has it, and serves all rules; a turn counts for one at least, and what others have opened is passed by. This
// cluster's own rules come first, until they have half; then it has turns like others.
func Choose(rules []Rule, from Sources, most int, by Admissions) Opened {
	c := &choice{
		rules: rules, from: from, order: inTurn(from.IDs, by), left: most, looks: maxLooks,
		few: max(fewLooks, maxLooks/2/max(1, most)), opened: Opened{},
		alike: alike(rules), taken: make([]map[int]bool, len(from.IDs)), passed: make([]int, len(rules)),
	}
	authors := readersOf(rules, by.Root)
	for more := true; more && c.left > most/2 && c.looks > maxLooks/2; {
		_, more = c.turn(authors[0])
	}
	t := newTurns(by, func(int) int { return 1 }) // what a turn takes may be hard to find out
	t.charge(by.Root, most-c.left)
	for i, r := range authors {
		t.wait(r.author, i)
	}
	t.run(func(i int) (charged int, more bool) {
		charged, more = c.turn(authors[i])
		if more {
			t.wait(authors[i].author, i) // for what comes next
		}
		return charged, c.left > 0 && c.looks > 0
	})
	return c.opened
}

// ChooseHere is Choose for watches in this cluster, of what the rules select at others, and returns whether one is opened.
func ChooseHere(rules []Rule, most int, by Admissions) (opens func(place.Scope) bool) {
	here := Sources{IDs: []string{by.Root}, Reads: func(int, int) (reads bool, looks int) { return true, 1 }}
	opened := Choose(rules, here, most, by)[by.Root]
	return func(s place.Scope) bool {
		_, ok := opened[s]
		return ok
	}
}

// choice is what was opened so far.
type choice struct {
	rules  []Rule
	from   Sources
	order  []int // of sources
	left   int   // so many more may be opened
	looks  int   // and looked at
	few    int   // of that in a turn: what counts like a watch
	opened Opened
	alike  []int          // for each rule the first that needs the same
	taken  []map[int]bool // of each source, by alike
	passed []int          // by alike: at so many of the first sources it is taken, or does not read them
}

// turn is one of an author; more says that it has others.
func (c *choice) turn(r *reader) (charged int, more bool) {
	reads, looks := r.seek(c)
	if reads {
		taken, looked := c.take(r)
		charged, looks = taken, looks+looked
	}
	c.looks -= looks
	return max(1, charged, looks/c.few), r.source < len(c.order)
}

// take opens what a rule needs at a source, as much as there is in a turn, and says how much that is.
func (c *choice) take(r *reader) (taken, looks int) {
	rule, source := r.rules[r.rule], c.order[r.source]
	id, views, same := c.from.IDs[source], c.rules[rule].Views, c.alike[rule]
	if c.opened[id] == nil {
		c.opened[id], c.taken[source] = map[place.Scope]struct{}{}, map[int]bool{}
	}
	for ; r.view < len(views) && taken < fewViews && c.left > 0; r.view++ {
		looks++
		if _, ok := c.opened[id][views[r.view]]; !ok {
			c.opened[id][views[r.view]] = struct{}{}
			c.left--
			taken++
		}
	}
	if r.view == len(views) {
		c.taken[source][same] = true
		c.pass(same, r.source)
		r.rule, r.view = r.rule+1, 0
	}
	return taken, looks
}

// pass notes that nothing is left to be opened for a rule, and for those alike, at a source. Where they begin to look moves on.
func (c *choice) pass(same, source int) {
	if source != c.passed[same] {
		return
	}
	c.passed[same]++
	for c.passed[same] < len(c.order) && c.taken[c.order[c.passed[same]]][same] {
		c.passed[same]++
	}
}

// alike finds for each rule the first one that needs the same of the same clusters: there are groups in which all publish the same rules.
func alike(rules []Rule) []int {
	seed, first, out := maphash.MakeSeed(), map[uint64]int{}, make([]int, len(rules))
	for i, r := range rules {
		var h maphash.Hash
		h.SetSeed(seed)
		h.WriteString(r.Asks)
		for _, s := range r.Views {
			maphash.WriteComparable(&h, s)
		}
		j, known := first[h.Sum64()]
		if !known {
			j = i
			first[h.Sum64()] = i
		}
		out[i] = j
	}
	return out
}

// reader is an author with its rules, and how far it has come.
type reader struct {
	author       string
	rules        []int // the oldest first
	source, rule int   // in choice.order, and in rules
	view         int   // of those that the rule needs there
}

// readersOf returns the authors of rules, root first, and the others in the order of their oldest rules.
func readersOf(rules []Rule, root string) []*reader {
	out := []*reader{{author: root}}
	of := map[string]*reader{"": out[0]}
	for i, r := range rules {
		a := of[r.Author]
		if a == nil {
			a = &reader{author: r.Author}
			of[r.Author] = a
			out = append(out, a)
		}
		a.rules = append(a.rules, i)
	}
	return out
}

// seek goes to the next rule that reads a source and needs something there, and to that source, but not far.
func (r *reader) seek(c *choice) (reads bool, looks int) {
	for looks < c.few {
		if r.rule == 0 && r.view == 0 {
			looks += r.skip(c)
		}
		if r.source == len(c.order) {
			return false, looks
		}
		if r.rule == len(r.rules) {
			r.source, r.rule = r.source+1, 0
			looks++
			continue
		}
		if rule, source := r.rules[r.rule], c.order[r.source]; c.taken[source][c.alike[rule]] {
			looks++
		} else {
			reads, n := c.from.Reads(rule, source)
			if looks += n; reads {
				return true, looks
			}
			c.pass(c.alike[rule], r.source)
		}
		r.rule, r.view = r.rule+1, 0
	}
	return false, looks
}

// skip passes by the sources that come next and at which others have opened all that the author needs.
func (r *reader) skip(c *choice) (looks int) {
	to := len(c.order)
	for _, rule := range r.rules {
		looks++
		if to = min(to, c.passed[c.alike[rule]]); to <= r.source {
			return looks
		}
	}
	r.source = to
	return looks
}

// inTurn is an order of clusters in which each branch has its turn.
func inTurn(clusters []string, by Admissions) (order []int) {
	t := newTurns(by, func(int) int { return 1 })
	for i, id := range clusters {
		t.wait(id, i)
	}
	t.run(func(i int) (charged int, more bool) {
		order = append(order, i)
		return 1, true
	})
	return order
}
