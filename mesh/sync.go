// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxPulls run at a time; others wait, one per member.
	maxPulls = 4
	// maxFruitless caps the wait after a pull that brought nothing: a gap that
	// no member can fill must not turn into a loop.
	maxFruitless = 5 * time.Second
)

// puller fetches what we lack from members. Requests for one member are
// coalesced into at most one running and one waiting pull. A pull that failed
// is repeated with a capped, jittered wait while its member is alive, and once
// at another member.
type puller struct {
	pull   func(ctx context.Context, id string) (fresh int, err error)
	alive  func() []string
	result func(string) // for metrics
	wake   chan struct{}

	mu      sync.Mutex
	running int
	peers   map[string]*pulling
}

// pulling is what is known of pulls from one member.
type pulling struct {
	wanted  bool
	running bool
	wait    backoff
	retry   time.Time
}

func newPuller() *puller {
	return &puller{wake: make(chan struct{}, 1), peers: map[string]*pulling{}}
}

// request asks for a pull from a member as soon as possible.
func (p *puller) request(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peers[id]
	if s == nil {
		s = &pulling{}
		p.peers[id] = s
	}
	s.wanted = true
	signal(p.wake)
}

// retryNow forgets the waits.
func (p *puller) retryNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.peers {
		s.wait.reset()
		s.retry = time.Time{}
	}
	signal(p.wake)
}

// run pulls until the context ends.
func (p *puller) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		ready, wait := p.due(time.Now())
		for _, id := range ready {
			wg.Go(func() { p.perform(ctx, id) })
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// due marks the pulls that may start as running, and says when to look again.
func (p *puller) due(now time.Time) (ready []string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = maxBackoff
	for id, s := range p.peers {
		if !s.wanted || s.running || p.running >= maxPulls {
			continue
		}
		if left := s.retry.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		if now.Sub(s.retry) > s.wait.delay { // quiet for longer than the last wait
			s.wait.reset()
		}
		s.wanted, s.running = false, true
		p.running++
		ready = append(ready, id)
	}
	return ready, wait
}

func (p *puller) perform(ctx context.Context, id string) {
	fresh, err := p.pull(ctx, id)
	alive := p.alive()
	p.mu.Lock()
	s := p.peers[id]
	s.running = false
	p.running--
	first := s.wait.delay == 0
	var elsewhere string
	switch {
	case err != nil && ctx.Err() == nil:
		p.result("failed")
		s.retry = time.Now().Add(s.wait.next(maxBackoff))
		for _, other := range alive {
			s.wanted = s.wanted || other == id
		}
		if i := len(alive); first && i > 0 {
			elsewhere = alive[rand.IntN(i)]
		}
	case err == nil && fresh == 0:
		p.result("empty")
		s.retry = time.Now().Add(s.wait.next(maxFruitless))
	case err == nil:
		p.result("fresh")
		s.wait.reset()
		s.retry = time.Time{}
	}
	signal(p.wake)
	p.mu.Unlock()
	if elsewhere != "" && elsewhere != id {
		p.request(elsewhere)
	}
}
