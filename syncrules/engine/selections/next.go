// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package selections

import (
	"cmp"
	"time"
)

const (
	// unit is that in which is shared, and fresh for how long shares are used: to compute them takes milliseconds where there are thousands.
	unit  = 1 << 10
	fresh = time.Second
)

// Share returns what each cluster gets at most of total, if it wants everything and the others what they want.
type Share func(total int, wants map[string]int) map[string]int

// divisions is how often they are computed in that time, for who came since. Those that come after so many are within theirs until then.
const divisions = 32

// sharing is the shares that clusters have of something.
type sharing struct {
	shares  map[string]int // in units, as they were when
	shared  time.Time
	divided int // so often since
	since   time.Time
}

// mostBeyond is which of those that take something has most beyond its share of a total; where none has, that takes most.
func (s *sharing) mostBeyond(total int64, takes map[string]int64, share Share, now time.Time) string {
	for id := range takes {
		if _, known := s.shares[id]; !known || now.Sub(s.shared) >= fresh {
			s.divide(total, takes, share, now)
			break
		}
	}
	id, beyond := s.most(takes)
	if !beyond { // the shares were those of a while ago
		s.divide(total, takes, share, now)
		id, _ = s.most(takes)
	}
	return id
}

func (s *sharing) divide(total int64, takes map[string]int64, share Share, now time.Time) {
	if now.Sub(s.since) >= fresh {
		s.since, s.divided = now, 0
	}
	if s.divided++; s.divided > divisions {
		return
	}
	wants := make(map[string]int, len(takes))
	for id, n := range takes {
		wants[id] = int((n + unit - 1) / unit)
	}
	s.shares, s.shared = share(int(total/unit), wants), now
}

func (s *sharing) most(takes map[string]int64) (id string, beyond bool) {
	most := int64(0)
	for at, n := range takes {
		by := n - int64(s.shares[at])*unit
		if _, known := s.shares[at]; !known || by <= 0 {
			if beyond {
				continue
			}
			by = n
		} else if !beyond {
			most, beyond = 0, true
		}
		if by > most || by == most && at < id {
			id, most = at, by
		}
	}
	return id, beyond
}

// next is what ends next. Where what has ended takes most of what an author has, it is all of its newest rule.
func (s *Selections) next(now time.Time) (Of, bool) {
	takes := make(map[string]int64, len(s.authors))
	for id, a := range s.authors {
		takes[id] = a.takes
	}
	a := s.authors[s.mostBeyond(s.most, takes, s.share, now)]
	if a == nil {
		return Of{}, false
	}
	owners, records := make(map[string]int64, len(a.owners)), int64(0)
	for cluster, o := range a.owners {
		owners[cluster] = o.takes
		records += int64(len(o.rules)) * perSelection
	}
	if records <= a.takes/2 {
		cluster := a.mostBeyond(a.takes/2, owners, s.share, now)
		if o := a.owners[cluster]; o != nil {
			if of, some := s.newest(o, cluster); some {
				return of, true
			}
		}
	}
	return s.newestRule(a)
}

// newest is the selection by the newest rule of those that have not ended.
func (s *Selections) newest(o *owned, cluster string) (newest Of, some bool) {
	var born time.Time
	for rule, x := range o.rules {
		if of := (Of{rule, cluster}); !s.Ended(of) && (!some || cmp.Or(x.Born.Compare(born), cmp.Compare(rule, newest.Rule)) > 0) {
			newest, born, some = of, x.Born, true
		}
	}
	return newest, some
}

// newestRule is the newest rule that has not ended everywhere.
func (s *Selections) newestRule(a *author) (newest Of, some bool) {
	var born time.Time
	for _, o := range a.owners {
		for rule, x := range o.rules {
			if _, ended := s.ended[Of{Rule: rule}]; !ended && (!some || cmp.Or(x.Born.Compare(born), cmp.Compare(rule, newest.Rule)) > 0) {
				newest, born, some = Of{Rule: rule}, x.Born, true
			}
		}
	}
	return newest, some
}
