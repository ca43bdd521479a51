// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"time"
)

// stockLooks is for how long it is taken for known who admitted whom: to look takes some milliseconds where there are thousands.
const stockLooks = 10 * time.Second

// Stock is what there is because of other clusters, of something that stays: accounts bound how fast it becomes more, and this
// how much it becomes. Nothing of it is taken back. So at each level of the tree of who admitted whom, a cluster with all that it admitted may
// have as much as there is room left for, or an equal part of what the level has, if that is more, as long as there is room at all: whatever one
// member invents has half of all at most, and leaves room for what others bring. It has no lock and no clock.
type Stock struct {
	most    int64
	own     Account
	parent  func(id string) string
	members func() []string

	all int64
	of  map[Account]int64
	// paths are the accounts of those that have something, as they were when it was looked at; of a cluster that nobody knows any more, as it was
	// before. What one invents and has leave the group stays with what it has.
	paths map[Account][]string
	// used is what a cluster has with all that it admitted, and sharers is how many share what it has: itself, and those that it admitted.
	used    map[string]int64
	sharers map[string]int64
	looked  time.Time
}

// NewStock returns an empty one for so much. parent is as in NewCommon, and without it own admitted all; members lists the other clusters, of
// which there may be more than have anything.
func NewStock(most int64, own Account, parent func(id string) string, members func() []string) *Stock {
	if parent == nil {
		parent = func(string) string { return string(own) }
	}
	return &Stock{most: most, own: own, parent: parent, members: members, of: map[Account]int64{}, paths: map[Account][]string{}}
}

// Add says that there is more because of an account, or less where it is negative.
func (s *Stock) Add(of Account, more int64) {
	s.all += more
	for _, id := range s.path(of) {
		if s.used != nil {
			s.used[id] += more
		}
	}
	if s.of[of] += more; s.of[of] == 0 {
		delete(s.of, of)
		delete(s.paths, of)
	}
}

// Room is how much more there may be because of an account; it may be below zero. While less than half of all is used, whoever comes has room.
func (s *Stock) Room(of Account, now time.Time) int64 {
	free := s.most - s.all
	if free > s.most/2 {
		return free
	}
	if s.used == nil || now.Sub(s.looked) >= stockLooks {
		s.look(now)
	}
	room, part, at := free, s.most, string(s.own)
	for _, next := range s.path(of) {
		part /= max(1, s.sharers[at])
		room = min(room, max(part, free)-s.used[next])
		at = next
	}
	return room
}

// path is who is above an account, and the account. It is kept for those that have something.
func (s *Stock) path(of Account) []string {
	if p := s.paths[of]; p != nil {
		return p
	}
	p := s.find(of)
	s.paths[of] = p
	return p
}

// find is path as it is now. Of a long chain those nearest to the own cluster count: the others are below them.
func (s *Stock) find(of Account) []string {
	const longest = 8192
	up := []string{string(of)}
	id := s.parent(string(of))
	for ; id != string(s.own) && id != "" && len(up) < longest; id = s.parent(id) {
		up = append(up, id)
	}
	if id != string(s.own) { // nobody knows, or it is a circle
		up = []string{string(of), ""}
	}
	up = up[max(0, len(up)-deepest):]
	slices.Reverse(up)
	return append(up, string(of)+alone)
}

// look looks at who admitted whom.
func (s *Stock) look(now time.Time) {
	s.used, s.sharers, s.looked = map[string]int64{}, map[string]int64{}, now
	for of := range s.paths {
		if s.of[of] == 0 {
			delete(s.paths, of)
		} else if p := s.find(of); p[0] != "" { // otherwise it stays below those that it was below
			s.paths[of] = p
		}
	}
	for of, n := range s.of {
		for _, id := range s.path(of) {
			s.used[id] += n
		}
	}
	for _, id := range s.members() {
		s.sharers[s.parent(id)]++
	}
	if s.sharers[""] > 0 {
		s.sharers[string(s.own)]++ // those that no path leads to stand for one
	}
	for id := range s.sharers {
		if id != string(s.own) && id != "" {
			s.sharers[id]++
		}
	}
}
