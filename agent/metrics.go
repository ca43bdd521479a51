// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/replica"
)

// replicaCollector shows what the replica holds, counted when somebody asks.
type replicaCollector struct {
	replica *replica.Replica
	epoch   uint64

	entries, bytes, origins, clones, started *prometheus.Desc
}

func newReplicaCollector(r *replica.Replica, epoch uint64) *replicaCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("roster_replica_"+name, help, labels, nil)
	}
	return &replicaCollector{
		replica: r, epoch: epoch,
		entries: desc("entries", "Entries held, by status.", "status"),
		bytes:   desc("bytes", "Size of the messages held."),
		origins: desc("origins", "Clusters that entries are held of."),
		clones:  desc("clones", "Clusters that more than one agent writes as."),
		started: desc("epoch_at_start", "Epoch that this agent opened when it started."),
	}
}

// Describe implements prometheus.Collector.
func (c *replicaCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.entries, c.bytes, c.origins, c.clones, c.started} {
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
	gauge(c.bytes, stats.Bytes)
	gauge(c.origins, stats.Origins)
	gauge(c.clones, stats.Clones)
	gauge(c.started, int(c.epoch))
}
