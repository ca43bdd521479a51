// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import "time"

// stockLooks is for how long it is taken for known who admitted whom: to look takes a millisecond where there are thousands.
const stockLooks = 10 * time.Second

// Stock is what there is because of other clusters, of something that stays: accounts bound how fast it becomes more, and this
// how much it becomes. Nothing of it is taken back. So at each level of the tree of who admitted whom, a cluster with all that it admitted may
// have as much as there is room left for, or an equal part of what the level has, if that is more: whatever one member invents has half of all
// at most, and leaves room for what others bring. It has no lock and no clock.
type Stock struct {
	most    int64
	own     Account
	parent  func(id string) string
	members func() []string

	all int64
	of  map[Account]int64
	// used is what a cluster has with all that it admitted, and sharers is how many share what it has: itself, and those that it admitted. Both
	// are of the tree as it was when it was looked at.
	used    map[string]int64
	sharers map[string]int64
	looked  time.Time
}

// NewStock returns an empty one for so much. parent is as in NewCommon, and without it own admitted all; members lists the other clusters, of which there may be more than have
// anything.
func NewStock(most int64, own Account, parent func(id string) string, members func() []string) *Stock {
	if parent == nil {
		parent = func(string) string { return string(own) }
	}
	return &Stock{most: most, own: own, parent: parent, members: members, of: map[Account]int64{}}
}

// Most is how much there is room for.
func (s *Stock) Most() int64 { return s.most }

// Add says that there is more because of an account, or less where it is negative.
func (s *Stock) Add(of Account, more int64) {
	s.all += more
	if s.of[of] += more; s.of[of] == 0 {
		delete(s.of, of)
	}
	if s.used == nil {
		return
	}
	for _, id := range path(s.own, of, s.parent) {
		s.used[id] += more
	}
}

// Room is how much more there may be because of an account; it may be below zero. While less than half of all is used, whoever comes has room.
func (s *Stock) Room(of Account, now time.Time) int64 {
	free := s.most - s.all
	if free > s.most/2 {
		s.used = nil
		return free
	}
	if s.used == nil || now.Sub(s.looked) >= stockLooks {
		s.look(now)
	}
	room, part, at := free, s.most, string(s.own)
	for _, next := range path(s.own, of, s.parent) {
		part /= max(1, s.sharers[at])
		room = min(room, max(part, free)-s.used[next])
		at = next
	}
	return room
}

// look looks at who admitted whom.
func (s *Stock) look(now time.Time) {
	s.used, s.sharers, s.looked = map[string]int64{}, map[string]int64{}, now
	for of, n := range s.of {
		for _, id := range path(s.own, of, s.parent) {
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
