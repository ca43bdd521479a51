// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// Index is all copies. The maps and sets that it returns are its own: they are read at once, and not changed.
type Index struct {
	kinds map[schema.GroupKind]*kind
	stock *quota.Stock
	// authors are those of rules, as far as these are there, the oldest first.
	authors func(rules []string) []string
}

type (
	named = map[types.NamespacedName]*Copy
	names = map[types.NamespacedName]struct{}
)

// kind is the copies of one kind. No map in it has an empty map or a zero as a value.
type kind struct {
	all     named
	byOwner map[string]named
	decided map[string]int           // how many of them each rule decides about
	share   map[ruleAndOwner]int     // the same of one owner
	orphans map[string]names         // of each rule that made them
	moved   map[ownerAndSource]names // those that are in another place than their source
}

type ruleAndOwner struct{ rule, owner string }

type ownerAndSource struct {
	owner string
	from  place.Key
}

// NewIndex makes an Index without copies. The stock is told what copies take; authors are those of rules, as far as these are there, the oldest first.
func NewIndex(stock *quota.Stock, authors func(rules []string) []string) *Index {
	return &Index{kinds: map[schema.GroupKind]*kind{}, stock: stock, authors: authors}
}

// count tells the stock of n copies, 1 or -1, that are like this one.
func (x *Index) count(c *Copy, n int64) {
	x.stock.Add(quota.By{Author: cmp.Or(c.Author, c.Owner), Owner: c.Owner}, n*c.Weight())
}

// Room is how much more the copies may take that rules of an author make of an owner's objects; see quota.Stock.
func (x *Index) Room(by quota.By, now time.Time) int64 { return x.stock.Room(by, now) }

// At is the copy at a place, nil for none.
func (x *Index) At(k place.Key) *Copy {
	if set := x.kinds[k.GroupKind]; set != nil {
		return set.all[k.NamespacedName()]
	}
	return nil
}

// All are the copies of a kind.
func (x *Index) All(gk schema.GroupKind) map[types.NamespacedName]*Copy {
	if set := x.kinds[gk]; set != nil {
		return set.all
	}
	return nil
}

// Of are the copies of a kind that one cluster owns.
func (x *Index) Of(gk schema.GroupKind, owner string) map[types.NamespacedName]*Copy {
	if set := x.kinds[gk]; set != nil {
		return set.byOwner[owner]
	}
	return nil
}

// OwnedBy are the places of all copies that a cluster owns.
func (x *Index) OwnedBy(owner string) iter.Seq[place.Key] {
	return func(yield func(place.Key) bool) {
		for gk, set := range x.kinds {
			for name := range set.byOwner[owner] {
				if !yield(place.At(gk, name)) {
					return
				}
			}
		}
	}
}

// MovedFrom are the places of the copies of a kind that were made from a source of an owner and are elsewhere.
func (x *Index) MovedFrom(gk schema.GroupKind, owner string, from place.Key) map[types.NamespacedName]struct{} {
	if set := x.kinds[gk]; set != nil {
		return set.moved[ownerAndSource{owner, from}]
	}
	return nil
}

// KindsDecidedBy are the kinds of which a rule decides about copies, whatever it says now.
func (x *Index) KindsDecidedBy(rule string) iter.Seq[schema.GroupKind] {
	return func(yield func(schema.GroupKind) bool) {
		for gk, set := range x.kinds {
			if set.decided[rule] > 0 && !yield(gk) {
				return
			}
		}
	}
}

// Decided is how many copies of a kind a rule decides about.
func (x *Index) Decided(gk schema.GroupKind, rule string) int {
	if set := x.kinds[gk]; set != nil {
		return set.decided[rule]
	}
	return 0
}

// Share is Decided for the copies of one owner.
func (x *Index) Share(gk schema.GroupKind, rule, owner string) int {
	if set := x.kinds[gk]; set != nil {
		return set.share[ruleAndOwner{rule, owner}]
	}
	return 0
}

// Owners are the clusters that own copies of a kind which a rule decides about.
func (x *Index) Owners(gk schema.GroupKind, rule string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if set := x.kinds[gk]; set != nil {
			for by := range set.share {
				if by.rule == rule && !yield(by.owner) {
					return
				}
			}
		}
	}
}

// Put keeps a copy, and returns the one whose place it takes. What is known of that beside its content stays known.
func (x *Index) Put(k place.Key, c *Copy) (old *Copy) {
	set := x.kinds[k.GroupKind]
	if set == nil {
		set = &kind{all: named{}, byOwner: map[string]named{}, decided: map[string]int{}, share: map[ruleAndOwner]int{}, moved: map[ownerAndSource]names{}}
		x.kinds[k.GroupKind] = set
	}
	name := k.NamespacedName()
	old = set.all[name]
	c.Author = x.authorOf(c, old)
	if old != nil {
		c.Tolerated = old.Tolerated
		if c.Accepted == (syncrules.Accepted{}) {
			c.Accepted, c.Dropped = old.Accepted, old.Dropped
		}
		set.remove(name, old)
		x.count(old, -1)
	}
	set.add(name, c)
	x.count(c, 1)
	return old
}

// authorOf is who a copy counts for that takes the place of another one, which may be nil.
func (x *Index) authorOf(c, old *Copy) string {
	authors := x.authors(c.Rules)
	switch {
	case c.Author != "":
		return c.Author
	case old != nil && (slices.Contains(authors, old.Author) || len(authors) == 0 && slices.Equal(c.Rules, old.Rules)):
		return old.Author
	case len(authors) > 0:
		return authors[0]
	}
	return ""
}

// Drop forgets the copy at a place, and returns it; nil for none.
func (x *Index) Drop(k place.Key) (old *Copy) {
	set := x.kinds[k.GroupKind]
	if set == nil {
		return nil
	}
	name := k.NamespacedName()
	if old = set.all[name]; old == nil {
		return nil
	}
	set.remove(name, old)
	x.count(old, -1)
	if len(set.all) == 0 {
		delete(x.kinds, k.GroupKind)
	}
	return old
}

func (s *kind) add(name types.NamespacedName, c *Copy) {
	s.all[name] = c
	if s.byOwner[c.Owner] == nil {
		s.byOwner[c.Owner] = named{}
	}
	s.byOwner[c.Owner][name] = c
	s.count(c, 1)
	if c.Orphaned {
		s.addOrphan(name, c)
	}
	if c.MovedFrom != nil {
		from := ownerAndSource{c.Owner, *c.MovedFrom}
		if s.moved[from] == nil {
			s.moved[from] = names{}
		}
		s.moved[from][name] = struct{}{}
	}
}

func (s *kind) remove(name types.NamespacedName, c *Copy) {
	delete(s.all, name)
	delete(s.byOwner[c.Owner], name)
	if len(s.byOwner[c.Owner]) == 0 {
		delete(s.byOwner, c.Owner)
	}
	s.count(c, -1)
	if c.Orphaned {
		s.removeOrphan(name, c)
	}
	if c.MovedFrom != nil {
		from := ownerAndSource{c.Owner, *c.MovedFrom}
		delete(s.moved[from], name)
		if len(s.moved[from]) == 0 {
			delete(s.moved, from)
		}
	}
}

// count adds a copy to, or takes it from, what its rules decide about.
func (s *kind) count(c *Copy, n int) {
	for i, rule := range c.Rules {
		if !c.DecidedBy(rule) || slices.Contains(c.Rules[:i], rule) {
			continue
		}
		if s.decided[rule] += n; s.decided[rule] == 0 {
			delete(s.decided, rule)
		}
		by := ruleAndOwner{rule, c.Owner}
		if s.share[by] += n; s.share[by] == 0 {
			delete(s.share, by)
		}
	}
}
