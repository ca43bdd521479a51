// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace bounds what peers cost, by making them wait.
//
// Each peer has a pace, and all together have one. While that suffices a peer waits for nobody but itself. When it is used up each
// peer has its share of it, so that one which invents others gets no more with all of those.
package pace

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// period is how long what peers cost is counted before it is shared.
	period = time.Second
	// minBurst is more than anything costs that waits once.
	minBurst = 256
)

// Share returns what each peer gets of total if it wants everything, and the others what they want.
type Share func(total int, wants map[string]int) map[string]int

// Throttle makes peers wait. It is safe for concurrent use.
type Throttle struct {
	each, total int // a second
	burst       int // of each
	share       Share

	ended chan struct{}

	mu     sync.Mutex
	all    *rate.Limiter
	peers  map[string]*peer
	scarce bool
	since  time.Time // while it is scarce: what peers cost is counted since then
}

type peer struct {
	limiter *rate.Limiter
	cost    int
	limited int // its share; 0 for none
	gone    chan struct{}
}

// New returns a throttle where each peer may cost so much a second, after a burst, and all of them as much as so many do.
func New(each, burst, peers int, share Share) *Throttle {
	return &Throttle{
		each: each, total: each * peers, burst: burst, share: share,
		all: rate.NewLimiter(rate.Limit(each*peers), burst*peers), peers: map[string]*peer{}, ended: make(chan struct{}),
	}
}

// Wait returns when the peer may be served again, or is forgotten. It is called by the readers
// of that peer alone, which makes the peer itself wait: TCP tells it.
func (t *Throttle) Wait(id string, cost int) {
	now := time.Now()
	t.mu.Lock()
	p := t.peers[id]
	if p == nil {
		p = &peer{limiter: rate.NewLimiter(rate.Limit(t.each), t.burst), gone: make(chan struct{})}
		t.peers[id] = p
	}
	if enough := t.all.AllowN(now, cost); !enough && !t.scarce {
		t.startLocked(now)
	}
	p.cost += cost
	if t.scarce && now.Sub(t.since) >= period {
		t.divideLocked(now)
	}
	delay := p.limiter.ReserveN(now, cost).DelayFrom(now)
	t.mu.Unlock()
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.gone:
	case <-t.ended:
	}
}

// End has nobody wait any more. Call it once.
func (t *Throttle) End() { close(t.ended) }

// startLocked begins to count what peers cost.
func (t *Throttle) startLocked(now time.Time) {
	t.scarce, t.since = true, now
	for _, p := range t.peers {
		p.cost = 0
	}
}

// divideLocked gives each peer its share, or ends the shortage.
func (t *Throttle) divideLocked(now time.Time) {
	wants, sum := map[string]int{}, 0
	for id, p := range t.peers {
		want := int(float64(p.cost) / now.Sub(t.since).Seconds())
		if want = min(want, t.each); p.limited > 0 && 2*want >= p.limited {
			want = t.each // it may want more
		}
		if p.cost > 0 {
			wants[id], sum = want, sum+want
		}
	}
	t.startLocked(now)
	var shares map[string]int
	if t.scarce = sum > t.total; t.scarce {
		shares = t.share(t.total, wants)
	}
	for id, p := range t.peers {
		limit, burst := t.each, t.burst
		if p.limited = 0; t.scarce {
			limit = max(1, min(t.each, t.total))
			if share, ok := shares[id]; ok {
				limit = max(1, min(limit, share))
			}
			p.limited, burst = limit, min(t.burst, max(limit, minBurst))
		}
		p.limiter.SetLimitAt(now, rate.Limit(limit))
		p.limiter.SetBurstAt(now, burst)
	}
}

// Forget lets go of what is kept of a peer, which is disconnected by now.
func (t *Throttle) Forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		close(p.gone)
		delete(t.peers, id)
	}
}

// Peers lists those of whom something is kept.
func (t *Throttle) Peers() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.peers))
}
