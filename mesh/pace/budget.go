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

// Take takes up to n for a peer, and returns how much that is. Where it is none, it is worth while to ask again after some time.
func (b *Budget) Take(id string, n int) (taken int, again time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.began) >= b.period {
		b.began, b.sum = now, 0
		clear(b.used)
	}
	left := b.total - b.sum
	if left < n {
		wants := maps.Clone(b.used)
		wants[id] += n
		left = max(left, b.share(b.total/reserve, wants)[id]-b.used[id])
	}
	if taken = max(0, min(n, left)); taken == 0 {
		return 0, b.began.Add(b.period).Sub(now)
	}
	b.used[id] += taken
	b.sum += taken
	return taken, 0
}

// Give gives back n that were taken: what they were for has turned out to cost nothing.
func (b *Budget) Give(id string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.used[id]) // the rest was of an earlier period
	b.sum -= n
	if b.used[id] -= n; b.used[id] == 0 {
		delete(b.used, id)
	}
}
