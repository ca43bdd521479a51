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
	// startRetryFirst and startRetryMax bound the wait before a failed start is tried again. The longest wait is short,
	// because a person who has just fixed the cause watches; each try sends about twenty requests to the API server.
	startRetryFirst = time.Second
	startRetryMax   = 30 * time.Second
)

// Agent is one agent of one cluster. Run may be called once.
type Agent struct {
	options Options
	log     *slog.Logger
	meter   *apiconn.Meter
	health  *health.Health
	group   atomic.Pointer[group.Group] // the group of agents of this cluster; nil with a single agent
}

// New checks the options and starts nothing.
func New(o Options) (*Agent, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Agent{options: o, log: o.Log, meter: apiconn.NewMeter(), health: health.New()}, nil
}

// Run runs the agent. It blocks until ctx ends, or until an error that the agent cannot recover from. That error is one
// line and says what to do.
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
	stopLocal, err := a.startLocal(ctx)
	if err != nil {
		cancel()
		return errors.Join(ignoreCanceled(err), ignoreCanceled(tasks.Wait()))
	}
	defer stopLocal()
	if a.grouped() {
		tasks.Go(func() error { return a.runGrouped(ctx) })
	} else {
		tasks.Go(func() error { return a.runAlone(ctx) })
	}
	return ignoreCanceled(tasks.Wait())
}

// ignoreCanceled returns nil for the error of what was told to end.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// grouped reports whether the cluster has several agents (--group-peers).
func (a *Agent) grouped() bool { return len(a.options.GroupPeers) > 0 }

// runAlone runs the only agent of the cluster.
func (a *Agent) runAlone(ctx context.Context) error {
	for {
		if err := a.serve(ctx, nil, nil); !isRestart(err) {
			return err
		}
	}
}

// runGrouped runs one of several agents of the cluster.
func (a *Agent) runGrouped(ctx context.Context) error {
	for {
		err := a.runInGroup(ctx)
		if !isRestart(err) && !errors.Is(err, journal.ErrOtherGroup) {
			return err
		}
		a.log.Info("the agents of this cluster form another group, which this agent joins")
	}
}

// isRestart reports whether err means that the cluster has a new key, so that the agent has to start again with it.
func isRestart(err error) bool {
	return errors.Is(err, membership.ErrNewKey) || errors.Is(err, group.ErrOtherKey)
}

// runInGroup takes part in the group of agents until the cluster gets another key, or its agents form another group.
func (a *Agent) runInGroup(ctx context.Context) error {
	a.health.Follow(group.NotEntered)
	var at *location
	var g *group.Group
	err := a.startWithRetry(ctx, func() (err error) {
		if at, err = a.connect(); err != nil {
			return err
		}
		if err = at.resolve(ctx); err == nil {
			g, err = group.Enter(ctx, group.Options{
				DataDir: a.options.DataDir, Address: a.options.GroupAddress, Peers: a.options.GroupPeers, MeshListen: a.options.MeshListen,
				ClusterID: at.clusterID, Key: at.key, Store: at.store, Identity: at.identity, Health: a.health, Log: a.log,
			})
		}
		if err != nil { // the leader runs all the same, so this is not reported on the Cluster object
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

// serve runs the active agent of the cluster: in a group for one term, else until ctx ends.
func (a *Agent) serve(ctx context.Context, g *group.Group, term *journal.Term) error {
	var p *parts
	err := a.startWithRetry(ctx, func() (err error) {
		p, err = a.build(ctx, g, term)
		return err
	})
	if err != nil {
		return err
	}
	defer a.health.Serve(newPages(a.newMetrics())) // the metrics of the parts end with them
	a.health.Serve(p.pages)
	return p.run(ctx)
}

// startWithRetry calls start. With --keep-trying it retries a start that fails: the agent stays up and not ready, with
// the reason, where an exit would only be a crash loop in a pod. An agent of a group also retries while the API server
// is unreachable.
func (a *Agent) startWithRetry(ctx context.Context, start func() error) error {
	const owner = "start"
	logged := ""
	for wait := startRetryFirst; ; wait = min(2*wait, startRetryMax) {
		err := start()
		// Every term of a group begins with a start. A term survives an API server that is unreachable for a while, so its start must, too.
		keep := a.options.KeepTrying || a.grouped() && errors.Is(err, kube.ErrUnreachable)
		if err == nil || !keep || ctx.Err() != nil || isRestart(err) || errors.Is(err, journal.ErrOtherGroup) {
			a.health.SetNotReady(owner, "")
			return err
		}
		line := startFailure(err)
		a.health.SetNotReady(owner, line)
		if line != logged {
			logged = line
			a.log.Error("not ready: the start failed", "error", line)
		}
		if loop.Sleep(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// startFailure is err in one line.
func startFailure(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
