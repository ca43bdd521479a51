// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// DescriptionOptions are the options of NewDescription. All fields are required.
type DescriptionOptions struct {
	Client *kube.Client
	// Version is that of the agent.
	Version string
	Log     *slog.Logger
}

// Description is what this cluster reports of itself.
type Description struct {
	// Changed is called when the description has changed. Nodes is called with all nodes when one of them has changed.
	// Both are set before Run.
	Changed func()
	Nodes   func([]*kube.Node)

	o       DescriptionOptions
	reading *loop.Task // of the API server's version

	mu      sync.Mutex
	nodes   []*kube.Node
	version string // of the API server; "" before it is known
}

// refusedFirst is the first wait after nodes could not be read.
const refusedFirst = 10 * time.Second

// NewDescription returns an empty description.
func NewDescription(o DescriptionOptions) *Description {
	d := &Description{o: o}
	d.reading = loop.NewTask("server version", o.Log, d.readVersion)
	return d
}

// Run keeps the description up to date until ctx ends. Without the right to read nodes it has none.
func (d *Description) Run(ctx context.Context) error {
	d.reading.Trigger()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.reading.Run(ctx) })
	group.Go(func() error {
		patience := loop.Patience{First: refusedFirst, Longest: apiconn.UntilWoken}
		for {
			err := kube.WatchNodes(ctx, d.o.Client, func(nodes []*kube.Node) {
				patience.Worked()
				d.nodesChanged(nodes)
			})
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the agent stops
			}
			d.o.Log.Warn("nodes cannot be read; provider, distribution and locality stay unknown", "error", err)
			loop.Sleep(ctx, patience.Next())
		}
	})
	return group.Wait()
}

// nodesChanged is called with all nodes when one of them has changed. It also reads the server's version again: an
// upgrade of the API server closes the node watch, so this happens after it, and needs no timer.
func (d *Description) nodesChanged(nodes []*kube.Node) {
	d.mu.Lock()
	d.nodes = nodes
	d.mu.Unlock()
	d.Nodes(nodes)
	d.reading.Trigger()
}

func (d *Description) readVersion(ctx context.Context) error {
	version, err := d.o.Client.ServerVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the API server's version: %w", err)
	}
	d.mu.Lock()
	d.version = version
	d.mu.Unlock()
	d.Changed()
	return nil
}

// Fill sets the description in a status. Before the version is known it keeps what was there.
func (d *Description) Fill(status *v1alpha1.ClusterStatus) {
	status.AgentVersion, status.SchemaVersion = payload.Clip(d.o.Version), v1alpha1.SchemaVersion
	d.mu.Lock()
	nodes, version := d.nodes, d.version
	d.mu.Unlock()
	if version == "" {
		return
	}
	m := kube.DescribeCluster(nodes, version)
	status.Provider, status.Distribution, status.Version = m.Provider, m.Distribution, m.Version
	status.KubeletVersions, status.KubeProxyVersions = m.KubeletVersions, m.KubeProxyVersions
	status.Locality = m.Locality
}
