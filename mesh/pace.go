// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// paceBurst is how many messages that took a look at their signature a peer
	// may send at once: more than the largest set of an origin and all that a
	// newcomer pulls in a group of some thousand. It is about two seconds of a
	// processor.
	paceBurst = 1 << 15
	// paceRate is how many it may send a second after that: some six percent of
	// a processor, per peer.
	paceRate = 1000
)

// pace bounds what the signatures of one peer cost. Messages that are known
// already cost next to nothing and do not count.
type pace struct {
	mu    sync.Mutex
	peers map[string]*rate.Limiter
}

func newPace() *pace { return &pace{peers: map[string]*rate.Limiter{}} }

// wait returns when the peer may be read from again. It is called by the
// readers of that peer alone, which makes the peer itself wait: TCP tells it.
func (p *pace) wait(peer string) {
	p.mu.Lock()
	l := p.peers[peer]
	if l == nil {
		l = rate.NewLimiter(paceRate, paceBurst)
		p.peers[peer] = l
	}
	p.mu.Unlock()
	time.Sleep(l.Reserve().Delay())
}
