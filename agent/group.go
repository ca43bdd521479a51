// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
)

const (
	// groupEvery is how often an agent looks at how its group is.
	groupEvery = 500 * time.Millisecond
	// lostAfter is how long a group may have no leader before its agents say that it has lost its quorum.
	lostAfter = 10 * time.Second
	// askKeyEvery is how often an agent without a leader looks whether the cluster has another key.
	askKeyEvery = 3 * time.Second
	// handOverWithin bounds the search for another leader when this one is told to end.
	handOverWithin = 3 * time.Second
)

// group is this agent's part in the group of agents of its cluster, under one key and in one raft group.
//
//	          elected                    lost, or told to end
//	follower ─────────► leader: a session ─────────► follower
//
// Who leads is the cluster's active agent: its session is that of an agent that is alone. Who follows applies the log,
// passes on what other clusters open to the port, and writes nothing to the API server but what the agents of the
// cluster agree upon (charter).
type group struct {
	options   Options
	log       *slog.Logger
	client    *kube.Client
	private   *private
	clusterID string
	key       ed25519.PrivateKey
	health    *health
	front     *mesh.Front
	journal   *journal.Journal
}

// runGrouped is an agent that is one of several.
func (a *Agent) runGrouped(ctx context.Context, health *health) error {
	for {
		err := a.takePart(ctx, health)
		if !errors.Is(err, errStartAgain) && !errors.Is(err, journal.ErrTurned) {
			return err
		}
		a.log.Info("the agents of this cluster form another group, which this agent joins")
	}
}

// takePart lasts as long as the cluster has this key and the group this name.
func (a *Agent) takePart(ctx context.Context, health *health) error {
	health.follow("not in the group of agents of this cluster yet")
	var g *group
	err := a.persist(ctx, health, func() (err error) {
		g, err = a.enterGroup(ctx, health)
		return err
	})
	if err != nil {
		return err
	}
	defer g.client.Close()
	a.group.Store(g)
	// The agents go on talking until this one has ended.
	carry, stop := context.WithCancel(context.WithoutCancel(ctx))
	var failed error
	front := make(chan struct{})
	go func() {
		defer close(front)
		failed = g.front.Run(carry)
	}()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return g.watch(ctx) })
	tasks.Go(func() error { return a.takeTurns(ctx, g) })
	tasks.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-front:
			return fmt.Errorf("--mesh-listen %s: %w", g.options.MeshListen, failed)
		}
	})
	err = tasks.Wait()
	g.leave(carry)
	stop()
	<-front
	return err
}

// enterGroup opens the port and the directory.
func (a *Agent) enterGroup(ctx context.Context, health *health) (_ *group, err error) {
	s, err := a.newSession(health)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // which the one that leads has no part in: it is not reported on the Cluster object
			s.client.Close()
		}
	}()
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	g := &group{options: a.options, log: a.log, client: s.client, private: s.private, clusterID: s.clusterID, key: s.key, health: health}
	listener, err := mesh.TCP{}.Listen(ctx, a.options.MeshListen)
	if err != nil {
		return nil, meshListenError(a.options.MeshListen, err)
	}
	if g.front, err = mesh.NewFront(mesh.Identity{ClusterID: s.clusterID, PrivateKey: s.key}, listener, g.place); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	g.journal, err = journal.Open(ctx, journal.Options{
		Dir: a.options.DataDir, ClusterID: s.clusterID, PublicKey: s.key.Public().(ed25519.PublicKey), Machine: g.follower, Log: a.log,
		Group: &journal.Group{Address: a.options.GroupAddress, Peers: a.options.GroupPeers, Stream: g.front.Siblings(), Charter: g.charter()},
	})
	if err != nil {
		return nil, errors.Join(s.dataDir(err), g.front.Close())
	}
	return g, nil
}

// charter is the record of this group.
func (g *group) charter() charter { return charter{g.private, g.key.Public().(ed25519.PublicKey)} }

// follower is a machine that holds what the group holds, and does nothing with it.
func (g *group) follower() (journal.Machine, error) {
	return replica.New(replica.Options{Self: g.clusterID, PrivateKey: g.key, Keyring: strangers{}})
}

// strangers is the keyring of who merges nothing.
type strangers struct{}

func (strangers) Key(string) (ed25519.PublicKey, bool) { return nil, false }
func (strangers) Introduce(string, ed25519.PublicKey, string) error {
	return replica.ErrUnknownOrigin
}
func (strangers) Remove(string, ed25519.PublicKey) {}
func (strangers) Swapped(string) bool              { return false }

// place says where the cluster's place in the mesh is.
func (g *group) place() (address string, here bool) {
	s := g.journal.Status()
	return s.Leader, s.Leads || s.Leader == g.options.GroupAddress
}

// takeTurns leads whenever the others want it to.
func (a *Agent) takeTurns(ctx context.Context, g *group) error {
	for {
		term, err := g.journal.Lead(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				term.End()
			}
			return nil
		case errors.Is(err, journal.ErrTurned):
			return err
		case err != nil:
			return fmt.Errorf("--data-dir %s: %w", g.options.DataDir, err)
		}
		g.log.Info("this agent leads the agents of its cluster: it is the active one", "address", g.options.GroupAddress)
		g.health.lead()
		err = a.lead(ctx, g, term)
		g.health.follow("the agents of this cluster elect a leader")
		if !errors.Is(err, journal.ErrLost) {
			return err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the same
		}
		g.log.Info("this agent leads no more and follows", "address", g.options.GroupAddress)
	}
}

// lead is the cluster's active agent, for the time of one term: nothing of it is left, and nothing is written any more,
// when it returns.
func (a *Agent) lead(ctx context.Context, g *group, term *journal.Term) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(term.Run(ctx))
	}()
	defer func() {
		cancel(nil)
		<-ended
		term.End()
		follower, adopt := g.follower()
		if adopt == nil {
			adopt = g.journal.Adopt(follower)
		}
		err = errors.Join(err, adopt)
		a.metrics = a.newMetrics()
		g.health.serve(a.metrics)
	}()
	s, err := a.begin(ctx, g.health, g, term)
	if err == nil {
		err = s.run(ctx)
	}
	return g.whyEnded(context.Cause(ctx), err)
}

// whyEnded is why a session ended: what its term ended for, or else its own reason. What was under way when the
// disk failed knows only that it ended.
func (g *group) whyEnded(term, session error) error {
	switch {
	case errors.Is(term, journal.ErrLost):
		return term
	case term == nil, errors.Is(term, context.Canceled), errors.Is(term, journal.ErrClosed): // ErrClosed is the session's doing
		return session
	}
	return fmt.Errorf("--data-dir %s: %w", g.options.DataDir, term)
}

// leave lets another agent lead before this one ends.
func (g *group) leave(ctx context.Context) {
	handing, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	if err := g.journal.HandOver(handing); err != nil {
		g.log.Debug("the agents of this cluster were handed to nobody", "error", err)
	}
	if err := g.journal.Close(); err != nil {
		g.log.Warn("the data directory was not closed well", "dir", g.options.DataDir, "error", err)
	}
}

// watch says how the group is.
func (g *group) watch(ctx context.Context) error {
	led, asked, reported, said := time.Now(), time.Now(), time.Time{}, ""
	pace := time.NewTicker(groupEvery)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		status := g.journal.Status()
		if status.Leader != "" && len(status.Servers) > 0 {
			if led = time.Now(); said != "" {
				g.log.Info("the agents of this cluster have a leader again", "leader", status.Leader)
			}
			said = ""
			line := ""
			if status.Behind {
				line = "this agent (" + g.options.GroupAddress + ") does not have all yet that the agents of this cluster hold, and gets it from " + status.Leader
			}
			g.health.following(line)
			if err := g.guard(ctx, status); err != nil {
				return err
			}
			continue
		}
		line := g.leaderless(status)
		g.health.following(line)
		lost := time.Since(led) >= lostAfter
		if lost && line != said {
			said = line
			g.log.Error("not ready", "error", line)
		}
		if time.Since(asked) > askKeyEvery {
			asked = time.Now()
			if g.keyChanged(ctx) {
				return errStartAgain
			}
		}
		if lost && len(status.Servers) > 0 && time.Since(reported) > askKeyEvery { // a leader may take it back all the time
			reported = time.Now()
			g.report(ctx, status)
		}
	}
}

// guard is for the leader while it does not reach somebody: that one may say that there is no leader, and a person may
// believe it.
func (g *group) guard(ctx context.Context, status journal.Status) error {
	if !status.Leads || !status.Silent {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := g.charter().hold(ctx, status, nil)
	if errors.Is(err, journal.ErrTurned) {
		return err
	}
	if err != nil {
		g.log.Debug("the record of the agents of this cluster cannot be read", "error", err)
	}
	return nil
}

// report records that this agent has no leader.
func (g *group) report(ctx context.Context, status journal.Status) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	term, index := g.journal.Reach()
	now := v1alpha1.AgentSurvivor{ServerID: status.ServerID, Term: term, Index: index}
	if err := g.charter().survive(ctx, g.options.GroupAddress, status.Group, now); err != nil {
		g.log.Debug("it cannot be recorded that the group has no leader", "error", err)
	}
}

// leaderless is the line about a group without a leader.
func (g *group) leaderless(s journal.Status) string {
	if len(s.Servers) == 0 {
		return "this agent (" + g.options.GroupAddress + ") holds nothing and waits to be taken into the group of agents of this cluster: no agent of --group-peers takes it in"
	}
	return fmt.Sprintf("the agents of this cluster have no leader: %d of %s must be up; start them, or, when their disks are lost for good, make a group of this survivor: agentctl group recover --survivor %s",
		len(s.Servers)/2+1, strings.Join(s.Servers, ", "), g.options.GroupAddress)
}

// keyChanged says that the cluster has another key than the one that this agent talks to the others under.
func (g *group) keyChanged(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	key, err := g.private.identity(ctx, g.clusterID, g.key.Public().(ed25519.PublicKey))
	return errors.Is(err, ErrIdentityLost) || err == nil && !g.key.Equal(key)
}
