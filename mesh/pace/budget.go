// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"maps"
	"sync"
	"time"
)

// Budget bounds what is done because of peers, by not doing it. In each period there is so much for all of them together, for whoever
// comes first. Once that is used up there is a quarter of it beside, of which each gets what it has not had of its share yet: few do
// who are invented, since they share one part with all that were first. It is safe for concurrent use.
type Budget struct {
	total  int
	period time.Duration
	share  Share

	mu    sync.Mutex
	began time.Time
	used  map[string]int // in this period: of few, whoever asks
	sum   int

	asked, before map[string]int // how often each did in this period, and in the one before
	shares        map[string]int // of those that had asked
	divided       time.Time      // when, and
	resting       time.Time      // until when the reserve is not divided again
}

const (
	// reserve is which part of the total there is beside it, for those to whom that belongs.
	reserve = 4
	// calm is how many times as long as it took the reserve is not divided again: for thousands it takes milliseconds.
	calm = 20
)

// NewBudget returns a budget of total in each period.
func NewBudget(total int, period time.Duration, share Share) *Budget {
	return &Budget{total: total, period: period, share: share, used: map[string]int{}, asked: map[string]int{}}
}

// Total is how many places there are in a period for whoever comes first.
func (b *Budget) Total() int { return b.total }

// Take takes a place for a peer, if there is one; if only its own are left, one of those. If not, it is worth while to ask again after some
// time.
func (b *Budget) Take(id string, onlyOwn bool) (taken bool, again time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.began) >= b.period {
		long := now.Sub(b.began) >= 2*b.period
		b.began, b.sum = now, 0
		clear(b.used)
		if b.before = b.asked; long {
			b.before = nil // who asked then may be gone
		}
		b.asked = map[string]int{}
	}
	b.asked[id]++
	if onlyOwn || b.sum >= b.total {
		if _, known := b.shares[id]; !known || b.divided.Before(b.began) {
			if wait := b.resting.Sub(now); wait > 0 {
				return false, wait
			}
			b.divideLocked()
		}
		if b.shares[id] <= b.used[id] {
			return false, b.began.Add(b.period).Sub(now)
		}
	}
	b.used[id]++
	b.sum++
	return true, 0
}

// divideLocked divides the reserve among those that ask. They may ask more in this period than it looks like now: then a little more is
// taken than there is.
func (b *Budget) divideLocked() {
	began := time.Now()
	wants := maps.Clone(b.asked)
	for id, n := range b.before {
		wants[id] = max(wants[id], n)
	}
	b.shares = b.share(b.total/reserve, wants)
	b.divided = time.Now()
	b.resting = b.divided.Add(min(calm*b.divided.Sub(began), b.period/4))
}

// Give gives back a place of this period: what it was taken for has turned out to cost nothing.
func (b *Budget) Give(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[id] == 0 {
		return // it was of an earlier period
	}
	b.sum--
	if b.used[id]--; b.used[id] == 0 {
		delete(b.used, id)
	}
}
