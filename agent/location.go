// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/identity"
	"github.com/roster-mesh/roster/agent/install"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/membership"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/registry"
	"github.com/roster-mesh/roster/agent/status"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/replica/journal"
)

// reportTimeout bounds the status update that reports a failed start: the API server may be the cause of the failure.
const reportTimeout = 5 * time.Second

// location is what the agent knows before it has any part: its API server, its cluster, and the key of that cluster.
type location struct {
	options  *Options
	log      *slog.Logger
	client   *kube.Client
	clock    *apiconn.Clock      // of the API server
	clocks   *apiconn.Comparison // with that of this machine
	store    *store.Store
	identity *identity.Identity

	// What resolve finds out.
	clusterID   string
	server      kube.Server
	record      membership.Record
	key         ed25519.PrivateKey
	clusterName string // of its Cluster object, which may not be there yet
}

// connect makes the client of the local API server. It sends no request.
func (a *Agent) connect() (*location, error) {
	kube.RouteClientLogs(a.log)
	config, err := kube.LoadConfig(a.options.Kubeconfig)
	if err != nil {
		return nil, err
	}
	a.options.pace(config)
	clock := &apiconn.Clock{}
	at := &location{options: &a.options, log: a.log, clock: clock, clocks: apiconn.LogSkew(clock, a.log)}
	config.Wrap(a.meter.Side(apiconn.Local, clock))
	if at.client, err = kube.NewClient(config); err != nil {
		return nil, fmt.Errorf("connect to the local API server: %w", err)
	}
	at.store = store.New(at.client, a.options.privateNamespace())
	at.identity = identity.New(at.store)
	return at, nil
}

// resolve reads from the API server which cluster this is, and which key it has. It also checks that the chart is
// installed.
func (l *location) resolve(ctx context.Context) (err error) {
	if l.clusterID, err = l.awaitClusterID(ctx); err != nil {
		return install.AccessError(err, l.client, l.options.Namespace)
	}
	if err := install.Check(ctx, l.client, l.options.Namespace, l.log); err != nil {
		return err
	}
	if l.server, err = kube.FindServer(ctx, l.client, l.options.APIServerEndpoint); err != nil {
		return err
	}
	own, err := registry.FindOwn(ctx, l.client, l.clusterID, l.options.ClusterName)
	if err != nil {
		return err
	}
	l.clusterName = l.options.ClusterName
	if own != nil {
		l.clusterName = own.Name
	}
	if l.record, err = membership.ReadRecord(ctx, l.store, l.log); err != nil {
		return err
	}
	recorded := payload.RecordedKey(own)
	if l.record.GaveUp(l.clusterID, own) {
		recorded = nil
	}
	l.key, err = l.identity.Key(ctx, l.clusterID, recorded)
	return err
}

// awaitClusterID reads the ID of this cluster. It waits, with one log line, while the API server is unreachable.
func (l *location) awaitClusterID(ctx context.Context) (string, error) {
	logged := false
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, loop.RetryMax) {
		id, err := l.client.ClusterID(ctx)
		if err == nil || !errors.Is(err, kube.ErrUnreachable) {
			return id, err
		}
		if !logged {
			l.log.Warn("waiting for the local API server; check --kubeconfig when it should be up", "server", l.client.Config.Host, "error", err)
			logged = true
		}
		if loop.Sleep(ctx, delay); ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
}

// report writes to the status of the Cluster object, if there is one, why the agent does not start. It tries once: the
// log and /readyz have the same line.
func (l *location) report(ctx context.Context, err error) {
	if !l.options.KeepTrying || l.clusterID == "" || ctx.Err() != nil || isRestart(err) || errors.Is(err, journal.ErrOtherGroup) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := l.writeProblem(ctx, startFailure(err)); err != nil {
		l.log.Debug("the status of this cluster cannot be written", "error", err)
	}
}

func (l *location) writeProblem(ctx context.Context, line string) error {
	own, err := registry.FindOwn(ctx, l.client, l.clusterID, cmp.Or(l.clusterName, l.options.ClusterName))
	if err != nil || own == nil {
		return err
	}
	view := status.View{Now: time.Now(), Date: l.clock.Now(), Local: true, Claims: 1, Problem: line}
	want, _ := status.Of(view, own.Status, own.Generation)
	if equality.Semantic.DeepEqual(own.Status, want) {
		return nil
	}
	update := own.DeepCopy()
	update.Status = want
	_, err = l.client.Clusters().ChangeStatus(ctx, own, update)
	return err
}
