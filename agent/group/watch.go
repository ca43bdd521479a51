// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/roster-mesh/roster/agent/identity"
	"github.com/roster-mesh/roster/kube/api/agentrecord"
	"github.com/roster-mesh/roster/replica/journal"
)

const (
	// checkEvery is how often an agent checks the state of its group.
	checkEvery = 500 * time.Millisecond
	// lostAfter is how long a group may be without a leader before its agents report a lost quorum.
	lostAfter = 10 * time.Second
	// checkKeyEvery is how often an agent without a leader checks whether the cluster has another key.
	checkKeyEvery = 3 * time.Second
	// requestTimeout bounds requests to the API server, which may be the reason why there is no leader.
	requestTimeout = 5 * time.Second
)

// watch reports the state of the group in /readyz and in the log. It returns an error when this agent has to enter
// again.
func (g *Group) watch(ctx context.Context) error {
	led, asked, reported, logged := time.Now(), time.Now(), time.Time{}, ""
	pace := time.NewTicker(checkEvery)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		status := g.journal.Status()
		if status.Leader != "" && len(status.Servers) > 0 {
			if led = time.Now(); logged != "" {
				g.log.Info("the agents of this cluster have a leader again", "leader", status.Leader)
			}
			logged = ""
			g.options.Health.SetFollowReason(g.behind(status))
			if err := g.checkRecord(ctx, status); err != nil {
				return err
			}
			continue
		}
		line := g.noLeader(status)
		g.options.Health.SetFollowReason(line)
		lost := time.Since(led) >= lostAfter
		if lost && line != logged {
			logged = line
			g.log.Error("not ready: the group has no leader", "error", line)
		}
		if time.Since(asked) > checkKeyEvery {
			asked = time.Now()
			if g.keyChanged(ctx) {
				return ErrOtherKey
			}
		}
		if lost && len(status.Servers) > 0 && time.Since(reported) > checkKeyEvery { // repeated, because a leader may have deleted it
			reported = time.Now()
			g.report(ctx, status)
		}
	}
}

// behind is why an agent with a leader is not ready, "" when it is.
func (g *Group) behind(s journal.Status) string {
	if !s.Behind {
		return ""
	}
	return "this agent (" + g.options.Address + ") does not have all yet that the agents of this cluster hold, and gets it from " + s.Leader
}

// noLeader is why an agent without a leader is not ready, and what to do.
func (g *Group) noLeader(s journal.Status) string {
	if len(s.Servers) == 0 {
		return "this agent (" + g.options.Address + ") holds nothing and waits to be taken into the group of agents of this cluster: no agent of --group-peers takes it in"
	}
	return fmt.Sprintf("the agents of this cluster have no leader: %d of %s must be up; start them, or, when their disks are lost for good, make a group of this survivor: agentctl group recover --survivor %s",
		len(s.Servers)/2+1, strings.Join(s.Servers, ", "), g.options.Address)
}

// checkRecord runs in the leader while it does not reach an agent. That agent may have recorded that there is no
// leader, which would mislead people, so the leader deletes such reports.
func (g *Group) checkRecord(ctx context.Context, status journal.Status) error {
	if !status.Leads || !status.Unreachable {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := g.record.confirm(ctx, status, nil)
	if errors.Is(err, journal.ErrOtherGroup) {
		return err
	}
	if err != nil {
		g.log.Debug("the record of the agents of this cluster cannot be read", "error", err)
	}
	return nil
}

// report records that this agent has no leader.
func (g *Group) report(ctx context.Context, status journal.Status) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	term, index := g.journal.LogEnd()
	now := agentrecord.Survivor{ServerID: status.ServerID, Term: term, Index: index}
	if err := g.record.addSurvivor(ctx, g.options.Address, status.Group, now); err != nil {
		g.log.Debug("it cannot be recorded that the group has no leader", "error", err)
	}
}

// keyChanged reports whether the cluster has another key than the one that this agent uses.
func (g *Group) keyChanged(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	key, err := g.options.Identity.Key(ctx, g.options.ClusterID, publicKey(g.options.Key))
	return errors.Is(err, identity.ErrLost) || err == nil && !g.options.Key.Equal(key)
}
