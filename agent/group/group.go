// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/identity"
	"github.com/roster-mesh/roster/agent/install"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica/journal"
)

// NotEntered is why an agent is not ready before Enter.
const NotEntered = "not in the group of agents of this cluster yet"

// handOverWithin bounds the search for another leader when this one is told to end.
const handOverWithin = 3 * time.Second

// ErrOtherKey is returned when the cluster has another key than the one that this agent talks to the others under.
var ErrOtherKey = errors.New("the agents of this cluster have another key by now")

// Options of Enter.
type Options struct {
	DataDir    string
	Address    string   // at which the other agents dial this one's mesh port
	Peers      []string // those of all agents, this one's among them
	MeshListen string

	ClusterID string
	Key       ed25519.PrivateKey // of the cluster
	Store     *store.Store
	Identity  *identity.Identity
	Health    *health.Health
	Log       *slog.Logger
}

// Group is one agent of its cluster's group, under one key and in one raft group. Its methods are safe for concurrent use.
type Group struct {
	options Options
	log     *slog.Logger
	record  bootstrapRecord
	front   *mesh.Front
	journal *journal.Journal
}

// Enter opens the mesh port and the data directory, and takes part in the group from then on. Run must be called.
func Enter(ctx context.Context, o Options) (*Group, error) {
	g := &Group{options: o, log: o.Log, record: bootstrapRecord{store: o.Store, identity: o.Identity, key: publicKey(o.Key)}}
	listener, err := mesh.TCP{}.Listen(ctx, o.MeshListen)
	if err != nil {
		return nil, install.MeshListenError(o.MeshListen, err)
	}
	if g.front, err = mesh.NewFront(mesh.Identity{ClusterID: o.ClusterID, PrivateKey: o.Key}, listener, g.place); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	g.journal, err = journal.Open(ctx, journal.Options{
		Dir: o.DataDir, ClusterID: o.ClusterID, PublicKey: publicKey(o.Key), Machine: g.follower, Log: o.Log,
		Group: &journal.Group{Address: o.Address, Peers: o.Peers, Stream: g.front.Siblings(), Records: g.record},
	})
	if err != nil {
		return nil, errors.Join(install.DataDirError(o.DataDir, err), g.front.Close())
	}
	return g, nil
}

func publicKey(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// Key is the cluster's key, as this group knows it.
func (g *Group) Key() ed25519.PrivateKey { return g.options.Key }

// Front is the mesh port, whose place in the mesh the leader takes with Open.
func (g *Group) Front() *mesh.Front { return g.front }

// Journal is what the group holds. The leader has its replica adopt it.
func (g *Group) Journal() *journal.Journal { return g.journal }

// Status is how the group is, as far as this agent knows.
func (g *Group) Status() journal.Status { return g.journal.Status() }

// ClaimLeadership is the first thing that a leader does: it makes sure that this group is still the cluster's, and
// records that it has a leader. A group that was recovered from a survivor begins an epoch above held. The error is
// journal.ErrOtherGroup when the cluster's agents form another group by now.
func (g *Group) ClaimLeadership(ctx context.Context, held uint64) error {
	return g.record.claimLeadership(ctx, g.journal.Status(), held)
}

// Run takes part until ctx ends, the cluster has another key (ErrOtherKey), or the group is not the cluster's any more
// (journal.ErrOtherGroup). For each term in which this agent leads it calls lead, whose context ends with the term; when lead
// returns, the term is ended and this agent follows again, unless lead ended it by itself: then Run ends with its error.
func (g *Group) Run(ctx context.Context, lead func(ctx context.Context, term *journal.Term) error) error {
	// The agents go on talking until this one has ended.
	carry, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var failed error
	front := make(chan struct{})
	go func() {
		defer close(front)
		failed = g.front.Run(carry)
	}()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return g.watch(ctx) })
	tasks.Go(func() error { return g.takeTurns(ctx, lead) })
	tasks.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-front:
			return fmt.Errorf("--mesh-listen %s: %w", g.options.MeshListen, failed)
		}
	})
	err := tasks.Wait()
	g.leave(carry)
	stop()
	<-front
	return err
}

// place says where the cluster's place in the mesh is.
func (g *Group) place() (address string, here bool) {
	s := g.journal.Status()
	return s.Leader, s.Leads || s.Leader == g.options.Address
}

// takeTurns leads whenever the others want it to.
func (g *Group) takeTurns(ctx context.Context, lead func(context.Context, *journal.Term) error) error {
	for {
		term, err := g.journal.Lead(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				term.End()
			}
			return nil
		case errors.Is(err, journal.ErrOtherGroup):
			return err
		case err != nil:
			return fmt.Errorf("--data-dir %s: %w", g.options.DataDir, err)
		}
		g.log.Info("this agent leads the agents of its cluster: it is the active one", "address", g.options.Address)
		g.options.Health.Lead()
		err = g.serveTerm(ctx, term, lead)
		g.options.Health.Follow("the agents of this cluster elect a leader")
		if !errors.Is(err, journal.ErrLost) {
			return err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the same
		}
		g.log.Info("this agent leads no more and follows", "address", g.options.Address)
	}
}

// serveTerm is the cluster's active agent, for the time of one term: nothing of it is left, and nothing is written any
// more, when it returns.
func (g *Group) serveTerm(ctx context.Context, term *journal.Term, lead func(context.Context, *journal.Term) error) (err error) {
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
		err = errors.Join(err, g.followAgain())
	}()
	err = lead(ctx, term)
	return g.whyEnded(context.Cause(ctx), err)
}

// whyEnded is why a term ended: what its journal ended for, or else what lead returned. What was under way when the disk
// failed knows only that it ended.
func (g *Group) whyEnded(term, lead error) error {
	switch {
	case errors.Is(term, journal.ErrLost):
		return term
	case term == nil, errors.Is(term, context.Canceled), errors.Is(term, journal.ErrClosed): // ErrClosed is lead's doing
		return lead
	}
	return fmt.Errorf("--data-dir %s: %w", g.options.DataDir, term)
}

// leave lets another agent lead before this one ends.
func (g *Group) leave(ctx context.Context) {
	handing, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	if err := g.journal.HandOver(handing); err != nil {
		g.log.Debug("no other agent of this cluster took over", "error", err)
	}
	if err := g.journal.Close(); err != nil {
		g.log.Warn("the data directory could not be closed", "dir", g.options.DataDir, "error", err)
	}
}
