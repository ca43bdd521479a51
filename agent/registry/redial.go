// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/roster-mesh/roster/agent/loop"
)

const (
	// redialBurst is how many times a member whose address changes is dialled at once; then it is every redialEvery.
	redialBurst = 3
	redialEvery = 10 * time.Second
	// manyRedials is how many members are remembered before they are looked through for those that may be forgotten.
	manyRedials = 1024
)

// redials dial members whose addresses have changed. What a member publishes as its address may be anybody's.
type redials struct {
	members *loop.Loop[string]

	mu      sync.Mutex
	pace    map[string]*rate.Limiter
	waiting map[string]bool
}

// newRedials returns redials that do nothing before the loop runs. kick dials a member at its newest address.
func newRedials(kick func(clusterID string), log *slog.Logger) *redials {
	r := &redials{pace: map[string]*rate.Limiter{}, waiting: map[string]bool{}}
	r.members = loop.New("redial", log, func(_ context.Context, id string) error {
		r.mu.Lock()
		delete(r.waiting, id)
		r.mu.Unlock()
		kick(id)
		return nil
	})
	return r
}

// changed says that a member has another address than before.
func (r *redials) changed(id string) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[id] {
		return
	}
	r.waiting[id] = true
	l := r.pace[id]
	if l == nil {
		r.forgetLocked(now)
		l = rate.NewLimiter(rate.Every(redialEvery), redialBurst)
		r.pace[id] = l
	}
	r.members.AddAfter(id, l.ReserveN(now, 1).DelayFrom(now))
}

// forgetLocked forgets members that were not dialled lately, once there are many.
func (r *redials) forgetLocked(now time.Time) {
	if n := len(r.pace); n < manyRedials || n&(n-1) != 0 {
		return
	}
	for id, l := range r.pace {
		if l.TokensAt(now) >= redialBurst {
			delete(r.pace, id)
		}
	}
}
