// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/roster-mesh/roster/agent/group"
	"github.com/roster-mesh/roster/replica"
)

// newMetrics returns a registry with the metrics of the process. Each start registers the metrics of its parts with it.
func (a *Agent) newMetrics() *prometheus.Registry {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics.MustRegister(a.meter.Requests(), newBuildInfo(a.options.Version, a.options.Commit), a.health.Collector())
	if a.grouped() {
		metrics.MustRegister(group.NewCollector(a.group.Load))
	}
	return metrics
}

// newPages returns the pages beside those of health. A part adds its pages there.
func newPages(metrics *prometheus.Registry) *http.ServeMux {
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return pages
}

// registerMetrics adds the metrics of the parts. The replica, the mesh and the rules have registered their own.
func (p *parts) registerMetrics() {
	p.metrics.MustRegister(p.importer.Collectors()...)
	p.metrics.MustRegister(p.refusals.Collector(), p.gate.Collector(), p.membership.Collector(), p.peers.Collector(p.credentials.Expires))
}

// replicaCollector reports what the replica holds. It counts when it is scraped.
type replicaCollector struct {
	replica *replica.Replica
	known   func() []string // clusterIDs whose missing entries are counted
	epoch   uint64

	entries, missing, bytes, origins, clones, full, refused, started *prometheus.Desc
}

func newReplicaCollector(r *replica.Replica, known func() []string, epoch uint64) *replicaCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("roster_replica_"+name, help, labels, nil)
	}
	return &replicaCollector{
		replica: r, known: known, epoch: epoch,
		missing: desc("missing_entries", "Entries that other clusters have published, as far as is known, and that are not held yet."),
		full:    desc("full_origins", "Clusters of which something finds no room here."),
		refused: desc("refused_total", "Times that something found no room here."),
		entries: desc("entries", "Entries held, by status.", "status"),
		bytes:   desc("bytes", "Size of the messages held."),
		origins: desc("origins", "Clusters that entries are held of."),
		clones:  desc("clones", "Clusters that more than one agent writes as."),
		started: desc("epoch_at_start", "Epoch that this agent wrote in when it started."),
	}
}

// Describe implements prometheus.Collector.
func (c *replicaCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.entries, c.missing, c.bytes, c.origins, c.clones, c.full, c.refused, c.started} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *replicaCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.replica.Stats()
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(c.entries, stats.Entries, "live")
	gauge(c.entries, stats.Withdrawn, "withdrawn")
	gauge(c.entries, stats.Tombstones, "tombstone")
	missing := 0
	for _, origin := range c.known() {
		if p := c.replica.Progress(origin); p.HeadSequence > p.Sequence {
			missing += int(p.HeadSequence - p.Sequence)
		}
	}
	gauge(c.missing, missing)
	gauge(c.full, stats.Full)
	out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(stats.Refused))
	gauge(c.bytes, stats.Bytes)
	gauge(c.origins, stats.Origins)
	gauge(c.clones, stats.Clones)
	gauge(c.started, int(c.epoch))
}

// newBuildInfo returns a constant metric with the version as labels.
func newBuildInfo(version, commit string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roster_build_info", Help: "1, with what this agent was built from as labels.",
		ConstLabels: prometheus.Labels{
			"version": cmp.Or(version, "unknown"), "commit": cmp.Or(commit, "unknown"), "goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })
}
