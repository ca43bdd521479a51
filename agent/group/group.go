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

// handOverTimeout bounds the hand-over to another leader when this one is stopped.
const handOverTimeout = 3 * time.Second

// ErrOtherKey is returned when the cluster has another key than the one that this agent uses.
var ErrOtherKey = errors.New("the agents of this cluster have another key by now")

// Options are the options of Enter. All fields are required.
type Options struct {
	DataDir    string
	Address    string   // host:port at which the other agents dial this one's mesh port
	Peers      []string // the addresses of all agents, including this one
	MeshListen string

	ClusterID string
	Key       ed25519.PrivateKey // of the cluster
	Store     *store.Store
	Identity  *identity.Identity
	Health    *health.Health
	Log       *slog.Logger
}

// Group is one agent in the group of its cluster, with one key and in one raft group. Its methods are safe for
// concurrent use.
type Group struct {
	options Options
	log     *slog.Logger
	record  bootstrapRecord
	front   *mesh.Front
	journal *journal.Journal
}

// Enter opens the mesh port and the data directory, and takes part in the raft group from then on. The caller must call
// Run, which closes both.
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

// Key is the cluster's key that this group uses.
func (g *Group) Key() ed25519.PrivateKey { return g.options.Key }

// Front is the mesh port. The leader opens the cluster's place in the mesh with Front().Open.
func (g *Group) Front() *mesh.Front { return g.front }

// Journal is the replicated log. The leader makes it adopt its replica.
func (g *Group) Journal() *journal.Journal { return g.journal }

// Status is the state of the group as far as this agent knows.
func (g *Group) Status() journal.Status { return g.journal.Status() }

// ClaimLeadership is the first step of a leader: it checks that this group is still that of the cluster, and records
// that it has a leader. A group that was recovered from a survivor opens an epoch above held. The error is
// journal.ErrOtherGroup when the agents of the cluster form another group.
func (g *Group) ClaimLeadership(ctx context.Context, held uint64) error {
	return g.record.claimLeadership(ctx, g.journal.Status(), held)
}

// Run takes part until ctx ends, the cluster has another key (ErrOtherKey), or the group is no longer that of the
// cluster (journal.ErrOtherGroup). It calls lead for each term in which this agent leads; the context of lead ends with the
// term. When lead returns because the term was lost, this agent follows again. When lead returns for a reason of its
// own, Run returns that error.
func (g *Group) Run(ctx context.Context, lead func(ctx context.Context, term *journal.Term) error) error {
	// The connections between the agents stay open until this one has stopped.
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
	tasks.Go(func() error { return g.leadTerms(ctx, lead) })
	tasks.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-front:
			return fmt.Errorf("--mesh-listen %s: %w", g.options.MeshListen, failed)
		}
	})
	err := tasks.Wait()
	g.handOver(carry)
	stop()
	<-front
	return err
}

// place returns where the cluster's place in the mesh is: the address of the leader, and whether that is here.
func (g *Group) place() (address string, here bool) {
	s := g.journal.Status()
	return s.Leader, s.Leads || s.Leader == g.options.Address
}

// leadTerms runs a term whenever this agent is elected.
func (g *Group) leadTerms(ctx context.Context, lead func(context.Context, *journal.Term) error) error {
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
			return nil //nolint:nilerr // the agent stops
		}
		g.log.Info("this agent no longer leads and follows", "address", g.options.Address)
	}
}

// serveTerm runs lead for one term. When it returns, lead has returned, nothing more is written, and a follower holds
// the journal.
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
	return g.termError(context.Cause(ctx), err)
}

// termError is why a term ended: the error of its journal, or else what lead returned. Code that was running when the
// disk failed sees only a canceled context.
func (g *Group) termError(term, lead error) error {
	switch {
	case errors.Is(term, journal.ErrLost):
		return term
	case term == nil, errors.Is(term, context.Canceled), errors.Is(term, journal.ErrClosed): // ErrClosed: lead closed the journal
		return lead
	}
	return fmt.Errorf("--data-dir %s: %w", g.options.DataDir, term)
}

// handOver lets another agent lead before this one stops.
func (g *Group) handOver(ctx context.Context) {
	handing, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := g.journal.HandOver(handing); err != nil {
		g.log.Debug("no other agent of this cluster took over", "error", err)
	}
	if err := g.journal.Close(); err != nil {
		g.log.Warn("the data directory could not be closed", "dir", g.options.DataDir, "error", err)
	}
}
