// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/replica/journal"
)

const (
	// beginFirst and beginMost bound the wait before another start: an answer to what a person mends should
	// not take long, and each start asks the API server for some twenty things.
	beginFirst = time.Second
	beginMost  = 30 * time.Second
	// reportTimeout bounds the report of a start that failed, which may have failed for the API server.
	reportTimeout = 5 * time.Second
)

// begin starts the agent, in a group for a term.
func (a *Agent) begin(ctx context.Context, health *health, g *group, term *journal.Term) (s *session, err error) {
	err = a.persist(ctx, health, func() (err error) {
		s, err = a.start(ctx, health, g, term)
		return err
	})
	return s, err
}

// persist does start. When that fails for what may be mended from outside and the agent is to keep trying, as in
// a pod, where an end would be a crash loop that says nothing, it stays not ready with the reason, and tries again.
func (a *Agent) persist(ctx context.Context, health *health, start func() error) error {
	said := ""
	for wait := beginFirst; ; wait = min(2*wait, beginMost) {
		err := start()
		// Each term begins with a start, which must outlast an API server that is away for a while as a session does.
		keep := a.options.KeepTrying || len(a.options.GroupPeers) > 0 && errors.Is(err, kube.ErrUnreachable)
		if err == nil || !keep || ctx.Err() != nil || errors.Is(err, errStartAgain) || errors.Is(err, journal.ErrTurned) {
			health.waitFor("")
			return err
		}
		line := startFailure(err)
		health.waitFor(line)
		if line != said {
			said = line
			a.log.Error("not ready", "error", line)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		a.metrics = a.newMetrics() // those of the failed start belong to it
		health.serve(a.metrics)
	}
}

// startFailure is err in one line.
func startFailure(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// reportStart says in the status of this cluster's Cluster object, where there is one, why the agent that
// keeps trying does not start. That is worth one try: where it fails, the log and /readyz have the line.
func (s *session) reportStart(ctx context.Context, err error) {
	if !s.options.KeepTrying || s.clusterID == "" || ctx.Err() != nil || errors.Is(err, errStartAgain) || errors.Is(err, journal.ErrTurned) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if report := s.reportProblem(ctx, startFailure(err)); report != nil {
		s.log.Debug("the status of this cluster cannot be written", "error", report)
	}
}

func (s *session) reportProblem(ctx context.Context, line string) error {
	own, err := s.findOwnCluster(ctx)
	if err != nil || own == nil {
		return err
	}
	want, _ := clusterStatus(view{now: time.Now(), date: s.clock.now(), local: true, claims: 1, problem: line}, own.Status, own.Generation)
	if equality.Semantic.DeepEqual(own.Status, want) {
		return nil
	}
	update := own.DeepCopy()
	update.Status = want
	_, err = s.client.Clusters().ChangeStatus(ctx, own, update)
	return err
}

// newSession is a session that has asked nobody for anything yet.
func (a *Agent) newSession(health *health) (*session, error) {
	o := a.options
	kube.RouteClientLogs(a.log)
	config, err := kube.LoadConfig(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	o.pace(config)
	s := &session{
		options: o, log: a.log, health: health, meter: a.meter,
		refused: map[refusal]entryNumber{}, startAgain: make(chan struct{}),
	}
	s.clock.told = s.clockTold
	config.Wrap(a.meter.side(sideLocal, &s.clock))
	client, err := kube.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the local API server: %w", err)
	}
	s.client, s.private = client, &private{client: client, namespace: o.privateNamespace()}
	client.Positions = history.TrustingPositions(s.wentBack)
	return s, nil
}

// settle finds out where the agent is, and under which key.
func (s *session) settle(ctx context.Context) (err error) {
	if s.clusterID, err = awaitClusterID(ctx, s.client, s.log); err != nil {
		return s.explain(err)
	}
	if err := s.checkInstallation(ctx); err != nil {
		return err
	}
	if s.server, err = kube.FindServer(ctx, s.client, s.options.APIServerEndpoint); err != nil {
		return err
	}
	own, err := s.findOwnCluster(ctx)
	if err != nil {
		return err
	}
	return s.identify(ctx, own)
}

// awaitClusterID asks who this cluster is; an API server that is merely away is waited for, with one line.
func awaitClusterID(ctx context.Context, client *kube.Client, log *slog.Logger) (string, error) {
	delay, said := 100*time.Millisecond, false
	for {
		id, err := client.ClusterID(ctx)
		if err == nil || !errors.Is(err, kube.ErrUnreachable) {
			return id, err
		}
		if !said {
			log.Warn("waiting for the local API server; check --kubeconfig when it should be up", "server", client.Config.Host, "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(delay):
			delay = min(2*delay, retryMost)
		}
	}
}
