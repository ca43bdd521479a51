// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	// look is how often the server that leads looks for learners. It asks its own memory.
	look = 500 * time.Millisecond
	// firstTry and lastTry bound the time between two attempts to make a learner a voter.
	firstTry = time.Second
	lastTry  = 30 * time.Second
)

// Voters is what Promote needs of an etcd.Server.
type Voters interface {
	// Leads says whether this member leads. No other one knows how far a learner is.
	Leads() bool
	// Learners returns those whose servers have started. One that has not must not become a voter: it would count as
	// one that is down.
	Learners() []etcd.Learner
	// Promote returns an error for a learner that has not caught up.
	Promote(ctx context.Context, id uint64) error
}

// attempt is when a learner is tried again.
type attempt struct {
	next time.Time
	wait time.Duration
}

// Promote makes learners voters while this member leads, until ctx ends. Each learner is
//
//	due -> promoted
//	due -> waiting, for twice as long as before -> due
//	any -> forgotten, when it is none any more or another member leads
func Promote(ctx context.Context, v Voters, log *slog.Logger) {
	attempts := map[uint64]attempt{}
	for ; ctx.Err() == nil; waiting.Sleep(ctx, look) {
		var learners []etcd.Learner
		if v.Leads() {
			learners = v.Learners()
		}
		for id := range attempts {
			if !slices.ContainsFunc(learners, func(l etcd.Learner) bool { return l.ID == id }) {
				delete(attempts, id)
			}
		}
		for _, learner := range learners {
			if time.Now().Before(attempts[learner.ID].next) {
				continue
			}
			if again, ok := try(ctx, v, learner, attempts[learner.ID], log); ok {
				delete(attempts, learner.ID)
			} else {
				attempts[learner.ID] = again
			}
		}
	}
}

// try says once why a learner stays one.
func try(ctx context.Context, v Voters, learner etcd.Learner, last attempt, log *slog.Logger) (again attempt, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := v.Promote(ctx, learner.ID)
	if err == nil {
		log.Info("a server has caught up and votes now", "peer", learner.Peer)
		return attempt{}, true
	}
	again = attempt{wait: min(max(firstTry, 2*last.wait), lastTry)}
	again.next = time.Now().Add(again.wait)
	if last.wait == 0 {
		log.Info("a server does not vote yet", "peer", learner.Peer, "reason", err)
	}
	return again, false
}
