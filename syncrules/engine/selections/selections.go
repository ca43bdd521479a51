// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package selections

import (
	"cmp"
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
	all     int64                            // what counts
	of      map[string]map[string]*selection // by rule and cluster
	authors map[string]*author
	ended   map[Of]time.Time // until when; of a rule that has ended everywhere, without the cluster
	first   time.Time        // when one ended first
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
	retrying
}

// retrying is when a selection that has ended is tried again.
type retrying struct {
	wait time.Duration // how long it was to wait the last time; 0 if it has never ended
	had  int64         // what it held then
}

func (x *selection) content() int64 { return max(x.objects, x.coming) + x.spread }

// New returns what bounds selections to so many bytes.
func New(most int64, share Share) *Selections {
	return &Selections{most: most, share: share, of: map[string]map[string]*selection{}, authors: map[string]*author{}, ended: map[Of]time.Time{}}
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
	x := s.of[of.Rule][of.Cluster]
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
		last, some := s.next(now)
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
	clusters := s.of[of.Rule]
	if _, ended := s.ended[of]; x.content() == 0 && !ended {
		if delete(clusters, of.Cluster); len(clusters) == 0 {
			delete(s.of, of.Rule)
		}
		return
	}
	if clusters == nil {
		clusters = map[string]*selection{}
		s.of[of.Rule] = clusters
	}
	clusters[of.Cluster] = x
	s.charge(of, x, 1)
}

// charge adds a selection to what its author has, or with -1 takes it away. What one that has ended holds is let go, and does not count, and when all of a
// rule has, nothing is known of it any more.
func (s *Selections) charge(of Of, x *selection, n int64) {
	id, takes := cmp.Or(x.Author, of.Cluster), int64(perSelection)
	if _, everywhere := s.ended[Of{Rule: of.Rule}]; everywhere {
		takes = 0
	} else if _, ended := s.ended[of]; !ended {
		takes += x.content()
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
	s.all, a.takes, o.takes = s.all+n*takes, a.takes+n*takes, o.takes+n*takes
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

// end ends a selection, or all of a rule. All that end are tried again at the same times, so that a cluster is listed once for all of them.
func (s *Selections) end(of Of, now time.Time) {
	if of.Cluster == "" {
		s.restate(of.Rule, func() {
			for cluster := range s.of[of.Rule] {
				delete(s.ended, Of{of.Rule, cluster})
			}
			s.ended[of] = s.after(now, retryCap)
		})
		return
	}
	x := s.of[of.Rule][of.Cluster]
	s.charge(of, x, -1)
	x.retrying = retrying{wait: min(max(retry, 2*x.wait), retryCap), had: x.content()}
	s.ended[of] = s.after(now, x.wait)
	s.settle(of, x)
}

// after is the next of the times at which ended selections are tried again that is so long after now.
func (s *Selections) after(now time.Time, wait time.Duration) time.Time {
	if s.first.IsZero() {
		s.first = now
	}
	turns := (now.Sub(s.first) + wait + retry - 1) / retry
	return s.first.Add(turns * retry)
}

// restate counts all selections of a rule anew after something has changed of what has ended.
func (s *Selections) restate(rule string, change func()) {
	clusters := s.of[rule]
	for cluster, x := range clusters {
		s.charge(Of{rule, cluster}, x, -1)
	}
	change()
	for cluster, x := range clusters {
		s.settle(Of{rule, cluster}, x)
	}
}

// Ended says that there is no room for a selection.
func (s *Selections) Ended(of Of) bool {
	if len(s.ended) == 0 {
		return false
	}
	_, ended := s.ended[of]
	_, everywhere := s.ended[Of{Rule: of.Rule}]
	return ended || everywhere
}

// Any says that some selection has ended.
func (s *Selections) Any() bool { return len(s.ended) > 0 }

// Takes is what is held of a selection, whether it has ended or not.
func (s *Selections) Takes(of Of) int64 {
	if x := s.of[of.Rule][of.Cluster]; x != nil {
		return x.content()
	}
	return 0
}

// Again are the rules of the selections whose time to be tried again has come, and for which there is room: from now on they have not ended. What exists
// no more is forgotten.
func (s *Selections) Again(exists func(Of) bool, now time.Time) (rules []string) {
	for of, until := range s.ended {
		if until.After(now) {
			continue
		}
		if of.Cluster == "" {
			s.restate(of.Rule, func() { delete(s.ended, of) })
			rules = append(rules, of.Rule)
			continue
		}
		x := s.of[of.Rule][of.Cluster]
		if exists(of) && s.all > s.most/2 && s.all+x.had > s.most { // what it has may be less by now, where it was too much for all of it
			s.ended[of] = s.after(now, retry)
			continue
		}
		s.charge(of, x, -1)
		delete(s.ended, of)
		if exists(of) {
			s.of[of.Rule][of.Cluster] = x // with how long it waited
			s.charge(of, x, 1)
			rules = append(rules, of.Rule)
		} else {
			s.settle(of, x)
		}
	}
	return rules
}

// Edited says that a rule is another one now, or gone: what has ended of it is tried at once.
func (s *Selections) Edited(rule string) {
	s.restate(rule, func() {
		delete(s.ended, Of{Rule: rule})
		for cluster := range s.of[rule] {
			delete(s.ended, Of{rule, cluster})
		}
	})
}

// Left says that a cluster is not in the group any more.
func (s *Selections) Left(cluster string) {
	for rule, clusters := range s.of {
		if x := clusters[cluster]; x != nil {
			of := Of{rule, cluster}
			s.charge(of, x, -1)
			delete(s.ended, of)
			s.settle(of, x)
		}
	}
}
