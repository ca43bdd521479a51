// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package selections

import (
	"cmp"
	"maps"
	"time"
)

const (
	// PerRule is what each rule takes that selects an object, and PerPlace what each place takes beside that of the object itself that a copy of it
	// belongs in, without that copy. What each object takes once counts for it (package memory).
	PerRule  = 128
	PerPlace = 1792
	// perSelection is what a selection takes itself, also when it has ended.
	perSelection = 384

	// One that has ended is tried again after a while, which doubles.
	retry    = 5 * time.Minute
	retryCap = time.Hour
)

// Selections is what all rules select.
type Selections struct {
	most    int64
	share   Share
	all     int64 // what counts
	of      map[Of]*selection
	authors map[string]*author
	ended   map[Of]time.Time // until when; of a rule that has ended everywhere, without the cluster
	sharing
}

// Of names a selection: what a rule selects of a cluster.
type Of struct{ Rule, Cluster string }

// Rule is whose a rule is, and since when it is here.
type Rule struct {
	Author string
	Born   time.Time
}

// author is what the rules of one cluster select, by the cluster that has it.
type author struct {
	takes  int64
	owners map[string]*owned
	sharing
}

type owned struct {
	takes int64
	rules map[string]*selection
}

// selection is what a rule selects of a cluster.
type selection struct {
	Rule
	// objects is what the objects take that are held, coming what those take that lists have brought so far, which will be held in their stead, and
	// spread what places in many namespaces do.
	objects, coming, spread int64
	wait                    time.Duration // how long it was to wait the last time; 0 if it never was
}

func (x *selection) content() int64 { return max(x.objects, x.coming) + x.spread }

// New returns what bounds selections to so many bytes.
func New(most int64, share Share) *Selections {
	return &Selections{most: most, share: share, of: map[Of]*selection{}, authors: map[string]*author{}, ended: map[Of]time.Time{}}
}

// Count says that the objects of a selection take so much more, or less. Where there is no room for that, selections end, which it returns; one without a
// cluster stands for all of its rule. They are to be let go.
func (s *Selections) Count(of Of, rule Rule, more int64, now time.Time) (ended []Of) {
	return s.change(of, rule, func(x *selection) { x.objects += more }, now)
}

// Coming is Count for what lists bring before it is held.
func (s *Selections) Coming(of Of, rule Rule, more int64, now time.Time) (ended []Of) {
	return s.change(of, rule, func(x *selection) { x.coming += more }, now)
}

// Spread says what the places in many namespaces take in all; otherwise it is like Count.
func (s *Selections) Spread(of Of, rule Rule, all int64, now time.Time) (ended []Of) {
	return s.change(of, rule, func(x *selection) { x.spread = all }, now)
}

func (s *Selections) change(of Of, rule Rule, change func(*selection), now time.Time) (ended []Of) {
	x := s.of[of]
	if x == nil {
		x = &selection{}
	} else {
		s.charge(of, x, -1)
	}
	if rule != (Rule{}) {
		x.Rule = rule // one that is gone leaves what it was; of its name there may be another one
	}
	before := x.content()
	change(x)
	s.settle(of, x)
	for x.content() > before && s.all > s.most {
		last, some := s.next(cmp.Or(x.Author, of.Cluster), now)
		if !some {
			break
		}
		s.end(last, now)
		ended = append(ended, last)
	}
	return ended
}

// settle keeps a selection, and counts it, if there is anything to know of it.
func (s *Selections) settle(of Of, x *selection) {
	if _, ended := s.ended[of]; x.content() == 0 && !ended {
		delete(s.of, of)
		return
	}
	s.of[of] = x
	s.charge(of, x, 1)
}

// charge adds a selection to what its author has, or with -1 takes it away. What one that has ended holds is let go, and does not count.
func (s *Selections) charge(of Of, x *selection, n int64) {
	id, takes := cmp.Or(x.Author, of.Cluster), n*perSelection
	if !s.Ended(of) {
		takes += n * x.content()
	}
	a := s.authors[id]
	if a == nil {
		a = &author{owners: map[string]*owned{}}
		s.authors[id] = a
	}
	o := a.owners[of.Cluster]
	if o == nil {
		o = &owned{rules: map[string]*selection{}}
		a.owners[of.Cluster] = o
	}
	s.all, a.takes, o.takes = s.all+takes, a.takes+takes, o.takes+takes
	if n > 0 {
		o.rules[of.Rule] = x
		return
	}
	if delete(o.rules, of.Rule); len(o.rules) == 0 {
		delete(a.owners, of.Cluster)
	}
	if len(a.owners) == 0 {
		delete(s.authors, id)
	}
}

// end ends a selection, or all of a rule.
func (s *Selections) end(of Of, now time.Time) {
	if of.Cluster == "" {
		s.restate(of.Rule, func() {
			maps.DeleteFunc(s.ended, func(at Of, _ time.Time) bool { return at.Rule == of.Rule })
			s.ended[of] = now.Add(retryCap)
		})
		return
	}
	x := s.of[of]
	s.charge(of, x, -1)
	x.wait = min(max(retry, 2*x.wait), retryCap)
	s.ended[of] = now.Add(x.wait)
	s.settle(of, x)
}

// restate counts all selections of a rule anew after something has changed of what has ended.
func (s *Selections) restate(rule string, change func()) {
	known := map[Of]*selection{}
	for of, x := range s.of {
		if of.Rule == rule {
			s.charge(of, x, -1)
			known[of] = x
		}
	}
	change()
	for of, x := range known {
		s.settle(of, x)
	}
}

// Ended says that there is no room for a selection.
func (s *Selections) Ended(of Of) bool {
	_, ended := s.ended[of]
	_, everywhere := s.ended[Of{Rule: of.Rule}]
	return ended || everywhere
}

// Any says that some selection has ended.
func (s *Selections) Any() bool { return len(s.ended) > 0 }

// Takes is what is held of a selection, whether it has ended or not.
func (s *Selections) Takes(of Of) int64 {
	if x := s.of[of]; x != nil {
		return x.content()
	}
	return 0
}

// Again are the rules of the selections whose time to be tried again has come: from now on they have not ended.
func (s *Selections) Again(now time.Time) (rules []string) {
	for of, until := range s.ended {
		if until.After(now) {
			continue
		}
		rules = append(rules, of.Rule)
		if of.Cluster == "" {
			s.restate(of.Rule, func() { delete(s.ended, of) })
			continue
		}
		x := s.of[of]
		s.charge(of, x, -1)
		delete(s.ended, of)
		s.of[of] = x // with its wait
		s.charge(of, x, 1)
	}
	return rules
}

// Edited says that a rule is another one now, or gone: what has ended of it is tried at once.
func (s *Selections) Edited(rule string) {
	if s.Any() {
		s.restate(rule, func() {
			maps.DeleteFunc(s.ended, func(of Of, _ time.Time) bool { return of.Rule == rule })
		})
	}
}

// Left says that a cluster is not in the group any more.
func (s *Selections) Left(cluster string) {
	for of, x := range s.of {
		if of.Cluster == cluster {
			s.charge(of, x, -1)
			delete(s.ended, of)
			s.settle(of, x)
		}
	}
}
