// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RelayLimits are what a Relay passes on: so many messages a second after so many at once.
type RelayLimits struct {
	Each, EachAtOnce int // of one origin
	All, AllAtOnce   int // of all origins
}

// Relay says what is passed on as it comes. What many origins send takes the same connections as what a few do, and may be no more than a
// receiver takes of us: so once that is used up each origin has its share. It is safe for concurrent use.
type Relay struct {
	limits RelayLimits
	all    *rate.Limiter
	scarce *Budget

	mu      sync.Mutex
	origins map[string]*rate.Limiter
}

// NewRelay returns a relay that has passed nothing on.
func NewRelay(limits RelayLimits, share Share) *Relay {
	return &Relay{
		limits: limits, all: rate.NewLimiter(rate.Limit(limits.All), limits.AllAtOnce),
		scarce: NewBudget(limits.All, time.Second, share), origins: map[string]*rate.Limiter{},
	}
}

// Allow reports whether one more message of an origin, which costs a receiver so much, may be passed on as it is; of ours, only if no more
// than one origin may send.
func (r *Relay) Allow(origin string, cost int, ours bool) bool {
	r.mu.Lock()
	of := r.origins[origin]
	if of == nil {
		of = rate.NewLimiter(rate.Limit(r.limits.Each), r.limits.EachAtOnce)
		r.origins[origin] = of
	}
	r.mu.Unlock()
	if !of.AllowN(time.Now(), cost) {
		return false
	}
	if ours || r.all.AllowN(time.Now(), cost) {
		return true
	}
	if cost > 1 {
		return false // few are: most messages are small
	}
	taken, _ := r.scarce.Take(origin, false)
	return taken
}

// Forget lets go of what is kept of an origin.
func (r *Relay) Forget(origin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.origins, origin)
}

// Origins lists those of which something is kept.
func (r *Relay) Origins() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.origins))
}
