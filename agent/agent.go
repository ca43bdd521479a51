// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/group"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/membership"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/replica/journal"
)

const (
	// startFirst and startMost bound the wait before another start: an answer to what a person fixes should
	// not take long, and each start asks the API server for some twenty things.
	startFirst = time.Second
	startMost  = 30 * time.Second
)

// Agent is one agent of one cluster. Run may be called once.
type Agent struct {
	options Options
	log     *slog.Logger
	meter   *apiconn.Meter
	health  *health.Health
	group   atomic.Pointer[group.Group] // the group of agents that this one is in; nil for one that is alone
}

// New checks the options and starts nothing.
func New(o Options) (*Agent, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Agent{options: o, log: o.Log, meter: apiconn.NewMeter(), health: health.New()}, nil
}

// Run is the agent: it blocks until ctx ends or something that it cannot fix goes wrong, which it returns
// as one line that says what to do.
func (a *Agent) Run(ctx context.Context) error {
	a.health.Serve(newPages(a.newMetrics()))
	server, err := health.Listen(ctx, a.options.HTTPListen, a.health, a.options.Pprof)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return server.Run(ctx) })
	if a.grouped() {
		tasks.Go(func() error { return a.runGrouped(ctx) })
	} else {
		tasks.Go(func() error { return a.runAlone(ctx) })
	}
	if err := tasks.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// grouped says that this agent is one of several of its cluster.
func (a *Agent) grouped() bool { return len(a.options.GroupPeers) > 0 }

// runAlone is the one agent of its cluster.
func (a *Agent) runAlone(ctx context.Context) error {
	for {
		if err := a.serve(ctx, nil, nil); !startsAgain(err) {
			return err
		}
	}
}

// runGrouped is an agent that is one of several.
func (a *Agent) runGrouped(ctx context.Context) error {
	for {
		err := a.takePart(ctx)
		if !startsAgain(err) && !errors.Is(err, journal.ErrOtherGroup) {
			return err
		}
		a.log.Info("the agents of this cluster form another group, which this agent joins")
	}
}

// startsAgain says that the cluster has another key, under which the agent goes on.
func startsAgain(err error) bool {
	return errors.Is(err, membership.ErrNewKey) || errors.Is(err, group.ErrOtherKey)
}

// takePart lasts as long as the cluster has this key and its group of agents this name.
func (a *Agent) takePart(ctx context.Context) error {
	a.health.Follow(group.NotEntered)
	var at *location
	var g *group.Group
	err := a.persist(ctx, func() (err error) {
		if at, err = a.connect(); err != nil {
			return err
		}
		if err = at.settle(ctx); err == nil {
			g, err = group.Enter(ctx, group.Options{
				DataDir: a.options.DataDir, Address: a.options.GroupAddress, Peers: a.options.GroupPeers, MeshListen: a.options.MeshListen,
				ClusterID: at.clusterID, Key: at.key, Store: at.store, Identity: at.identity, Health: a.health, Log: a.log,
			})
		}
		if err != nil { // which the one that leads has no part in: it is not reported on the Cluster object
			at.client.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	defer at.client.Close()
	a.group.Store(g)
	return g.Run(ctx, func(ctx context.Context, term *journal.Term) error { return a.serve(ctx, g, term) })
}

// serve is the cluster's active agent, in a group for the time of one term.
func (a *Agent) serve(ctx context.Context, g *group.Group, term *journal.Term) error {
	var p *parts
	err := a.persist(ctx, func() (err error) {
		p, err = a.build(ctx, g, term)
		return err
	})
	if err != nil {
		return err
	}
	defer a.health.Serve(newPages(a.newMetrics())) // those of the parts end with them
	a.health.Serve(p.pages)
	return p.run(ctx)
}

// persist does start. When that fails for what may be fixed from outside and the agent is to keep trying, as in
// a pod, where an end would be a crash loop that says nothing, it stays not ready with the reason, and tries again.
func (a *Agent) persist(ctx context.Context, start func() error) error {
	const owner = "start"
	logged := ""
	for wait := startFirst; ; wait = min(2*wait, startMost) {
		err := start()
		// Each term begins with a start, which must outlast an API server that is away for a while as a term does.
		keep := a.options.KeepTrying || a.grouped() && errors.Is(err, kube.ErrUnreachable)
		if err == nil || !keep || ctx.Err() != nil || startsAgain(err) || errors.Is(err, journal.ErrOtherGroup) {
			a.health.WaitFor(owner, "")
			return err
		}
		line := startFailure(err)
		a.health.WaitFor(owner, line)
		if line != logged {
			logged = line
			a.log.Error("not ready", "error", line)
		}
		if loop.Sleep(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// startFailure is err in one line.
func startFailure(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
