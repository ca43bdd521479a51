// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// maxJoins are attempted at a time, and moreJoins of some members beside them: see maxPulls.
	maxJoins  = 8
	moreJoins = 4
	// moreLooks is for how many members that one introduced it is found out, in one look, that no place belongs to them.
	moreLooks = 16
	// minRejoin is left between two attempts, also when a member contacts us, or two that cannot join wake each other in turn.
	minRejoin = time.Second
	// smallGroup is how many members may turn to a newcomer at once. In a larger group each waits a while, joinSpread for
	// every member: the newcomer joins somebody, and most others hear of it by gossip, every 500 ms, before it is their turn.
	smallGroup = 8
	joinSpread = 100 * time.Millisecond
)

// joiner keeps trying to reach pinned members that are not alive, each with a
// capped, jittered, exponential wait. memberlist itself gives up on the dead.
type joiner struct {
	join    func(id string) error
	missing func() []string // pinned members that are neither alive nor suspect
	present func() int      // how many members are not missing
	// introducer is on whose word a member is pinned: "" where a person did it.
	introducer func(id string) (by string, pinned bool)
	share      share
	failed     func(string, error) // called after a failure
	wake       chan struct{}

	mu      sync.Mutex
	busy    map[string]struct{} // with whom a join runs
	members map[string]*joinState
}

type joinState struct {
	id      string
	running bool
	wait    pace.Backoff
	retry   time.Time
	ended   time.Time // the last attempt
}

func newJoiner() *joiner {
	return &joiner{introducer: introduced, share: noShare, wake: make(chan struct{}, 1), busy: map[string]struct{}{}, members: map[string]*joinState{}}
}

// wakeUp makes run look at the members again.
func (j *joiner) wakeUp() { signal(j.wake) }

// retryNow forgets the wait for a member.
func (j *joiner) retryNow(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.members[id]; s != nil {
		s.wait.Reset()
		s.retry = time.Time{}
		signal(j.wake)
	}
}

// contacted is called when an authenticated connection of the member arrived: it
// can be reached, most likely, and need not be waited for.
func (j *joiner) contacted(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.members[id]
	if s == nil {
		return // it was never missing, or is about to be tried
	}
	if soon := s.ended.Add(minRejoin); soon.Before(s.retry) {
		s.retry = soon
		signal(j.wake)
	}
}

// run joins until the context ends, and waits for attempts under way.
func (j *joiner) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		missing := j.missing()
		ready, wait := j.due(missing, began)
		took := time.Since(began)
		for _, id := range ready {
			wg.Go(func() { j.runJoin(id) })
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
		case <-timer.C:
		}
		_ = sleep(ctx, calm(5*took, len(missing))) // a hundredth of the time: who cannot be reached waits for seconds
	}
}

func (j *joiner) due(missing []string, now time.Time) (ready []string, wait time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	wait = pace.MaxBackoff
	// Newcomers go first, and who is to be tried at once; then who waited longest, or the members that cannot be reached would take every
	// slot from those behind them. A group that starts as a whole must not turn to the same few.
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	var order []string // newcomers, and then those that wait
	var waiting []*joinState
	for _, id := range missing {
		s, known := j.members[id]
		if !known {
			s = &joinState{id: id, retry: now.Add(j.spread())}
			j.members[id] = s
		}
		switch left := s.retry.Sub(now); {
		case s.running:
		case left > 0:
			wait = min(wait, left)
		case known && !s.retry.IsZero():
			waiting = append(waiting, s)
		default:
			order = append(order, id)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *joinState) int { return a.retry.Compare(b.retry) })
	for _, s := range waiting {
		order = append(order, s.id)
	}
	refused := map[string]int{} // by introducer
	for _, id := range order {
		s := j.members[id]
		if n := len(j.busy); n >= maxJoins && (n >= maxJoins+moreJoins || !j.deserves(id, refused)) {
			continue
		}
		if now.Sub(s.retry) > pace.MaxBackoff { // it was present in between
			s.wait.Reset()
		}
		s.running = true
		j.busy[id] = struct{}{}
		ready = append(ready, id)
	}
	return ready, wait
}

// deserves says whether a place belongs to a member beside those of busy. Of thousands that one member brought a few are looked at.
func (j *joiner) deserves(id string, refused map[string]int) bool {
	by, pinned := j.introducer(id)
	if by == "" && pinned || refused[by] < moreLooks && j.share.has(maxJoins, id, slices.Collect(maps.Keys(j.busy))) {
		return true
	}
	refused[by]++
	return false
}

// spread is how long to leave a newcomer to others.
func (j *joiner) spread() time.Duration {
	if n := j.present(); n > smallGroup {
		return rand.N(time.Duration(n) * joinSpread)
	}
	return 0
}

func (j *joiner) runJoin(id string) {
	if err := j.join(id); err != nil {
		j.failed(id, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.busy, id)
	s := j.members[id]
	if s == nil { // its pin ended
		signal(j.wake) // somebody may have waited for its place
		return
	}
	s.running = false
	// After a success too: should the member not turn up alive, try again.
	s.ended = time.Now()
	s.retry = s.ended.Add(s.wait.Next(pace.MaxBackoff))
	signal(j.wake)
}
