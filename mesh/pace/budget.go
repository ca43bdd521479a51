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
}

// reserve is which part of the total there is beside it, for those to whom that belongs.
const reserve = 4

// NewBudget returns a budget of total in each period.
func NewBudget(total int, period time.Duration, share Share) *Budget {
	return &Budget{total: total, period: period, share: share, used: map[string]int{}}
}

// Take takes a place for a peer, if there is one. If not, it is worth while to ask again after some time.
func (b *Budget) Take(id string) (taken bool, again time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.began) >= b.period {
		b.began, b.sum = now, 0
		clear(b.used)
	}
	if b.sum >= b.total {
		wants := maps.Clone(b.used)
		wants[id]++
		if b.share(b.total/reserve, wants)[id] <= b.used[id] {
			return false, b.began.Add(b.period).Sub(now)
		}
	}
	b.used[id]++
	b.sum++
	return true, 0
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
