// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// maxPulls run at a time; others wait, one per member. Members that a swap has pinned find morePulls beside them, and so do
	// those to whom one of maxPulls belongs by who admitted them: clusters that one member introduces, however many, do not
	// keep us from others.
	maxPulls  = 4
	morePulls = 2
	// maxCalm stands for the members of a group after a look at what is to be pulled: that is a tenth of a second at most.
	maxCalm = 500
	// maxHold is how long a pull holds up others: a member that sends a little now
	// and then, or nothing that we lack, must not keep away those that have it. It
	// may go on, for rpcTimeout in all, and so some fifty run at a time at most.
	maxHold = 15 * time.Second
	// maxFruitless caps the wait after a pull that brought nothing: a gap that
	// no member can fill must not turn into a loop.
	maxFruitless = 5 * time.Second
	// maxFruitlessAgain is that cap when not even other members brought anything new
	// since the last such pull.
	maxFruitlessAgain = 2 * time.Minute
	// wasteRate is how many bytes a second a member may go on to send of what we hold or refuse, after wasteBurst of
	// them, as much as two honest members may have to compare, and maxWaste the longest time for which it is not asked
	// because of them. Others are, meanwhile.
	wasteRate  = 1 << 20
	wasteBurst = 32 << 20
	maxWaste   = 30 * time.Second
	// fruitlessMemory is how long two members that cannot become equal (they pinned
	// different keys for an origin, for example) leave each other alone while
	// neither changes.
	fruitlessMemory = 10 * time.Minute
)

// puller fetches what we lack from members. Requests for one member are
// coalesced into at most one running and one waiting pull. A pull that failed
// is repeated with a capped, jittered wait while its member is alive, and once
// at another member.
type puller struct {
	pull    func(ctx context.Context, id string) (pullResult, error)
	ours    func() summary // of what we hold
	alive   func() []string
	swapped func(id string) bool // a swap has pinned it
	share   share
	result  func(string) // for metrics
	wake    chan struct{}

	mu    sync.Mutex
	peers map[string]*pullState
}

// pullResult is what a pull brought.
type pullResult struct {
	fresh  int // messages
	wasted int // bytes of what was held or refused, less those of what was fresh
}

// fruitlessPull is the last pull that brought nothing: what both sides held, and when.
type fruitlessPull struct {
	ours, theirs summary
	at           time.Time
}

// pullState is what is known of pulls from one member.
type pullState struct {
	wanted    bool
	running   bool
	began     time.Time // the pull that runs,
	expected  summary   // and what the member had said before that; zero when unknown
	wait      pace.Backoff
	retry     time.Time
	asked     time.Time // when it became wanted
	theirs    summary   // what the member last said it holds; zero when unknown
	fruitless fruitlessPull
	waste     *rate.Limiter // of bytes
}

func newPuller() *puller {
	return &puller{swapped: neverSwapped, share: noShare, wake: make(chan struct{}, 1), peers: map[string]*pullState{}}
}

// request asks for a pull from a member as soon as possible.
func (p *puller) request(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peerLocked(id)
	s.theirs = summary{} // what it said last does not tell why
	s.wantLocked(time.Now())
	signal(p.wake)
}

// requestFor does so because the member said what it holds. It is not pulled when that is what we
// hold, nor when both were the same at a pull that brought nothing.
func (p *puller) requestFor(id string, theirs summary) {
	ours, now := p.ours(), time.Now()
	if theirs == ours {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peerLocked(id)
	s.theirs = theirs
	if s.fruitless.ours == ours && s.fruitless.theirs == theirs && now.Sub(s.fruitless.at) < fruitlessMemory {
		return
	}
	if soon := now.Add(maxFruitless); s.fruitless.ours != ours && s.retry.After(soon) && s.wait.Delay() > pace.MaxBackoff {
		s.retry = soon // that wait was for one who had nothing for us as we were then
	}
	s.wantLocked(now)
	signal(p.wake)
}

func (p *puller) peerLocked(id string) *pullState {
	s := p.peers[id]
	if s == nil {
		s = &pullState{waste: rate.NewLimiter(wasteRate, wasteBurst)}
		p.peers[id] = s
	}
	return s
}

// neverSwapped stands in for Trust.Swapped, introduced for Trust.Introducer, and noShare for Trust.Share.
func neverSwapped(string) bool                   { return false }
func introduced(string) (string, bool)           { return "somebody", true }
func noShare(int, map[string]int) map[string]int { return nil }

// share shares a total by who admitted whom.
type share func(total int, wants map[string]int) map[string]int

// has says whether one of so many places belongs to a member, beside those that have one.
func (s share) has(places int, id string, busy []string) bool {
	wants := map[string]int{id: 1}
	for _, other := range busy {
		wants[other] = 1
	}
	return s(places, wants)[id] > 0
}

func (s *pullState) wantLocked(now time.Time) {
	if !s.wanted {
		s.wanted, s.asked = true, now
	}
}

// forgetFruitless forgets which pulls brought nothing, since a new pin can make what
// was refused acceptable.
func (p *puller) forgetFruitless() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.peers {
		s.fruitless = fruitlessPull{}
	}
}

// retryNow forgets the wait for a member.
func (p *puller) retryNow(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.peers[id]; s != nil {
		s.wait.Reset()
		s.retry = time.Time{}
		s.fruitless = fruitlessPull{}
		signal(p.wake)
	}
}

// run pulls until the context ends.
func (p *puller) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		began := time.Now()
		ready, wait := p.due(began)
		took := time.Since(began)
		for _, id := range ready {
			wg.Go(func() { p.runPull(ctx, id) })
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
		_ = sleep(ctx, calm(took, maxCalm))
	}
}

// due marks the pulls that may start as running, those that were asked for
// first before others, and says when to look again.
//
// What is awaited from one member is not asked of another one as well, and what
// has come meanwhile is not asked for at all. But members that a swap has pinned
// wait for such members alone: others may say that they have what these have.
func (p *puller) due(now time.Time) (ready []string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = pace.MaxBackoff
	var wanted, busy []string
	awaited := map[summary]bool{}  // from a swapped member
	ours := sync.OnceValue(p.ours) // which takes milliseconds where there are thousands of origins
	for id, s := range p.peers {
		switch left := maxHold - now.Sub(s.began); {
		case s.running && left > 0:
			busy = append(busy, id)
			wait = min(wait, left)
			if s.expected != (summary{}) {
				awaited[s.expected] = awaited[s.expected] || p.swapped(id)
			}
		case s.running, !s.wanted:
		case s.theirs != summary{} && s.theirs == ours():
			s.wanted = false
		default:
			wanted = append(wanted, id)
		}
	}
	slices.SortFunc(wanted, func(a, b string) int { return p.peers[a].asked.Compare(p.peers[b].asked) })
	for _, id := range wanted {
		s := p.peers[id]
		if n := len(busy); n >= maxPulls && (n >= maxPulls+morePulls || !p.swapped(id) && !p.share.has(maxPulls, id, busy)) {
			continue
		}
		if fromChosen, is := awaited[s.theirs]; is && (fromChosen || !p.swapped(id)) {
			continue // looked at again when that pull has ended
		}
		if left := s.retry.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		quiet := s.wait.Delay()
		if s.fruitless != (fruitlessPull{}) {
			quiet = maxFruitlessAgain
		}
		if now.Sub(s.retry) > quiet { // for longer than the last wait
			s.wait.Reset()
		}
		s.wanted, s.running, s.began, s.expected = false, true, now, s.theirs
		busy = append(busy, id)
		if s.theirs != (summary{}) {
			awaited[s.theirs] = awaited[s.theirs] || p.swapped(id)
		}
		ready = append(ready, id)
	}
	return ready, wait
}

func (p *puller) runPull(ctx context.Context, id string) {
	p.mu.Lock()
	s := p.peerLocked(id)
	theirs := s.expected
	p.mu.Unlock()
	ours := p.ours()
	got, err := p.pull(ctx, id)
	alive := p.alive()
	now := time.Now()
	p.mu.Lock()
	s.running = false
	first := s.wait.Delay() == 0
	var elsewhere string
	switch {
	case errors.Is(err, ErrUnpinned):
		delete(p.peers, id)
	case got.fresh == 0 && (err == nil || errors.Is(err, errUseless)):
		p.result("empty")
		limit := maxFruitless
		if s.fruitless.ours == ours {
			limit = maxFruitlessAgain
		}
		s.fruitless = fruitlessPull{ours, theirs, now}
		s.retry = now.Add(s.wait.Next(limit))
	case err != nil && ctx.Err() == nil:
		p.result("failed")
		s.retry = now.Add(s.wait.Next(pace.MaxBackoff))
		if slices.Contains(alive, id) {
			s.wantLocked(now)
		}
		if i := len(alive); first && i > 0 {
			elsewhere = alive[rand.IntN(i)]
		}
	case err == nil:
		p.result("fresh")
		s.wait.Reset()
		s.retry, s.fruitless = time.Time{}, fruitlessPull{}
	}
	if got.wasted > 0 {
		delay := s.waste.ReserveN(now, min(got.wasted, wasteBurst)).DelayFrom(now)
		if paid := now.Add(min(maxWaste, delay)); delay > 0 && paid.After(s.retry) {
			s.retry = paid
		}
	}
	signal(p.wake)
	p.mu.Unlock()
	if elsewhere != "" && elsewhere != id {
		p.request(elsewhere)
	}
}
