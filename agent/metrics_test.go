// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/group"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/peers"
	"github.com/roster-mesh/roster/agent/registry"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/agent/restore"
	"github.com/roster-mesh/roster/agent/rules"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/trust"
)

// described is a Registerer that records the names of metrics.
type described struct {
	prometheus.Registerer
	t     *testing.T
	names []string
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := d.Register(c); err != nil {
			d.t.Fatal(err)
		}
	}
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	for desc := range descs {
		d.names = append(d.names, fqName.FindStringSubmatch(desc.String())[1])
	}
	return nil
}

// everything registers all metrics of an agent.
func everything(t *testing.T) []string {
	t.Helper()
	d := &described{t: t}
	key := agenttest.Key(agenttest.IDA)
	trust := trust.New(trust.Pin{ClusterID: agenttest.IDA, PublicKey: agenttest.PublicKey(agenttest.IDA)}, trust.Options{})
	r := agenttest.Signer(t, agenttest.IDA, key)
	m, err := mesh.New(mesh.Options{Identity: mesh.Identity{ClusterID: agenttest.IDA, PrivateKey: key}, Trust: trust, State: r, Listen: "127.0.0.1:0", Metrics: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	log := slog.New(slog.DiscardHandler)
	_, client := agenttest.NewAPIServer(t)
	if _, err := rules.New(rules.Options{ClusterID: agenttest.IDA, Client: client, Own: func() *v1alpha1.Cluster { return nil }, Log: log, Metrics: d}); err != nil {
		t.Fatal(err)
	}
	d.MustRegister(registry.NewImporter(registry.ImporterOptions{Log: log}).Collectors()...)
	d.MustRegister(
		registry.NewRefusals(log).Collector(),
		restore.New(restore.Options{Log: log}).Collector(), newReplicaCollector(r, nil, 1), peers.New(peers.Options{}).Collector(nil), newBuildInfo("v", "c"),
		apiconn.NewMeter().Requests(), group.NewCollector(nil), health.New().Collector(), removals.NewGuard(removals.Options{}).Collector(),
	)
	slices.Sort(d.names)
	return slices.Compact(d.names)
}

// docs/metrics.md lists every metric, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(roster_[a-z_]+)` \\|").FindAllSubmatch(text, -1) {
		listed = append(listed, string(row[1]))
	}
	names := everything(t)
	for _, name := range names {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
		if !strings.HasPrefix(name, "roster_") {
			t.Errorf("%s has not the project's prefix", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(names, name) {
			t.Errorf("docs/metrics.md lists %s, which there is not", name)
		}
	}
}
