// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"slices"
	"time"
)

// stockLooks is for how long it is taken for known who admitted whom: to look takes some milliseconds where there are thousands.
const stockLooks = 10 * time.Second

// Stock is what there is because of other clusters, of something that stays: accounts bound how fast it becomes more, and this
// how much it becomes. Nothing of it is taken back. So at each level of the tree of who admitted whom, a cluster with all that it admitted may
// have as much as there is room left for, or an equal part of what the level has, if that is more, as long as there is room at all: whatever one
// member invents has half of all at most, and leaves room for what others bring.
//
// It is shared twice: among the authors of rules, and what each of these has among the clusters whose objects its rules select. So neither by
// rules that select what others have, nor by objects that the rules of others select, a member has more. It has no lock and no clock.
type Stock struct {
	most   int64
	own    string
	parent func(id string) string
	// authors are the clusters that have rules, owners those that may have objects. There may be more of both than have anything.
	authors, owners func() []string

	all int64
	of  map[By]int64
	// known are the clusters that have something, as authors or owners.
	known map[string]*branch
	// used is what a cluster has with all that it admitted, and parts are among how many what it has is shared: itself, and those that it admitted.
	used   map[rung]int64
	parts  struct{ authors, owners map[string]int64 }
	looked time.Time
}

// By is because of whom there is something: the author of the rule that it is for, "" for the own cluster, and the cluster whose object it is of.
type By struct{ Author, Owner string }

// branch is where a cluster is in the tree.
type branch struct {
	// path is who is above it, and itself, as they were when it was looked at; of a cluster that nobody knows any more, as it was before.
	// What one invents and has leave the group stays with what it has.
	path []string
	uses int // so many of Stock.of
}

// rung is a cluster in the tree of authors, or, of what one author has, in that of owners.
type rung struct{ author, at string }

// NewStock returns an empty one for so much. parent is as in NewCommon, and without it own admitted all.
func NewStock(most int64, own string, parent func(id string) string, authors, owners func() []string) *Stock {
	if parent == nil {
		parent = func(string) string { return own }
	}
	return &Stock{most: most, own: own, parent: parent, authors: authors, owners: owners, of: map[By]int64{}, known: map[string]*branch{}}
}

// Add says that there is more because of somebody, or less where it is negative.
func (s *Stock) Add(by By, more int64) {
	by.Author = cmp.Or(by.Author, s.own)
	before := s.of[by]
	if before == 0 && more != 0 {
		s.use(by.Author, 1)
		s.use(by.Owner, 1)
	}
	s.all += more
	s.charge(by, more)
	if s.of[by] = before + more; s.of[by] == 0 {
		delete(s.of, by)
		if before != 0 {
			s.use(by.Author, -1)
			s.use(by.Owner, -1)
		}
	}
}

// use counts for how many something is kept of a cluster.
func (s *Stock) use(id string, n int) {
	b := s.known[id]
	if b == nil {
		b = &branch{path: s.find(id)}
		s.known[id] = b
	}
	if b.uses += n; b.uses == 0 {
		delete(s.known, id)
	}
}

func (s *Stock) charge(by By, more int64) {
	if s.used == nil {
		return
	}
	add := func(l rung) {
		if s.used[l] += more; s.used[l] == 0 {
			delete(s.used, l)
		}
	}
	for _, id := range s.path(by.Author) {
		add(rung{at: id})
	}
	for _, id := range s.path(by.Owner) {
		add(rung{by.Author, id})
	}
}

// Room is how much more there may be because of somebody; it may be below zero. While less than half of all is used, whoever comes has room.
func (s *Stock) Room(by By, now time.Time) int64 {
	free := s.most - s.all
	if free > s.most/2 {
		return free
	}
	if s.used == nil || now.Sub(s.looked) >= stockLooks {
		s.look(now)
	}
	by.Author = cmp.Or(by.Author, s.own)
	room, part := free, s.most
	down := func(path []string, author string, parts map[string]int64) {
		at := s.own
		for _, next := range path {
			part /= max(1, parts[at])
			room = min(room, max(part, free)-s.used[rung{author, next}])
			at = next
		}
	}
	down(s.path(by.Author), "", s.parts.authors)
	down(s.path(by.Owner), by.Author, s.parts.owners)
	return room
}

// path is who is above a cluster, and itself. It is kept for those that have something.
func (s *Stock) path(id string) []string {
	if b := s.known[id]; b != nil {
		return b.path
	}
	return s.find(id)
}

// find is path as it is now. Of a long chain those nearest to the own cluster count: the others are below them.
func (s *Stock) find(of string) []string {
	const longest = 8192
	var up []string
	id := of
	for ; id != s.own && id != "" && len(up) < longest; id = s.parent(id) {
		up = append(up, id)
	}
	if id != s.own { // nobody knows, or it is a circle
		up = []string{of, ""}
	}
	up = up[max(0, len(up)-deepest):]
	slices.Reverse(up)
	return append(up, of+alone)
}

// look looks at who admitted whom.
func (s *Stock) look(now time.Time) {
	s.used, s.looked = map[rung]int64{}, now
	for id, b := range s.known {
		if p := s.find(id); p[0] != "" { // otherwise it stays below those that it was below
			b.path = p
		}
	}
	for by, n := range s.of {
		s.charge(by, n)
	}
	s.parts.authors, s.parts.owners = s.partsOf(s.authors()), s.partsOf(s.owners())
}

// partsOf are among how many clusters share what each of them has, if these have something.
func (s *Stock) partsOf(ids []string) map[string]int64 {
	parts, seen := map[string]int64{}, map[string]bool{}
	for _, id := range ids {
		parts[id]++ // itself
		for id != s.own && id != "" && !seen[id] {
			seen[id] = true
			id = s.parent(id)
			parts[id]++
		}
	}
	if parts[""] > 0 {
		parts[s.own]++ // those that no path leads to stand for one
	}
	return parts
}
