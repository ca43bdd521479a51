// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// behindFor is how long a follower may lag before it says so. A leader tells how far the group is at least ten times
// in a second, to who takes it in.
const behindFor = 10 * time.Second

// commitObserver is raft's transport, which remembers how far the leader says that the group is. Raft tells a follower only
// how far that one is itself.
type commitObserver struct {
	*raft.NetworkTransport

	rpcs chan raft.RPC
	last atomic.Pointer[committed]
}

// committed is what the group has, as a leader said at a time.
type committed struct {
	index uint64
	at    time.Time
}

func newCommitObserver(t *raft.NetworkTransport) *commitObserver {
	return &commitObserver{NetworkTransport: t, rpcs: make(chan raft.RPC)}
}

// Consumer is raft's.
func (o *commitObserver) Consumer() <-chan raft.RPC { return o.rpcs }

// relay passes on what comes, until the channel is closed. A heartbeat does not come here and does not say an index.
func (o *commitObserver) relay(closed <-chan struct{}) {
	for {
		select {
		case rpc := <-o.NetworkTransport.Consumer():
			if r, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && r.LeaderCommitIndex > 0 {
				o.last.Store(&committed{r.LeaderCommitIndex, time.Now()})
			}
			select {
			case o.rpcs <- rpc:
			case <-closed:
				return
			}
		case <-closed:
			return
		}
	}
}

// progress tells whether a follower keeps up: it has what the group had when it was last asked, or runs after that. Used by
// one goroutine.
//
//	no leader ──► has a leader ──► told how far the group is: the goal ──► has reached it, and takes the next goal
//	    ▲                                                                      │ not for behindFor: behind
//	    └────────────────────────────────── the leader is lost ────────────────┘
type progress struct {
	since   time.Time // it has a leader
	goal    uint64    // 0 before it has heard one
	reached time.Time // a goal
}

// caughtUp says whether a follower has all that the group had a moment ago. settled: its log ends in the present term,
// so it has all that was durable before its leader was elected, which a new leader does not know at once; and this much of
// it is durable here and given to the machine.
func (p *progress) caughtUp(now time.Time, heard *committed, settled bool, applied uint64) bool {
	if p.since.IsZero() {
		p.since = now
	}
	fresh := heard != nil && heard.at.After(p.since) && now.Sub(heard.at) < behindFor
	if fresh && p.goal == 0 {
		p.goal = heard.index
	}
	if fresh && settled && applied >= p.goal {
		p.reached, p.goal = now, heard.index
	}
	return !p.reached.IsZero() && now.Sub(p.reached) < behindFor
}

// updateCaughtUp looks whether this server leads, or keeps up.
func (j *Journal) updateCaughtUp(p *progress, leads, led bool) {
	if leads || !led {
		*p = progress{}
		j.caughtUp.Store(leads)
		return
	}
	term, _ := j.LogEnd()
	j.caughtUp.Store(p.caughtUp(time.Now(), j.commits.last.Load(), term == j.raft.CurrentTerm(), j.raft.AppliedIndex()))
}
