// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/syncrules/engine/metrics"
)

// collector reports how the API servers of other clusters are reached. It counts when it is scraped.
type collector struct {
	peers                 *Peers
	own                   func() (time.Time, bool) // expiry of the credential that peers are given
	access, ready, expiry *prometheus.Desc
}

// Collector returns the metrics about the API servers of other clusters, and about credentials. own is the expiry of the
// credential that peers are given, false while there is none.
func (p *Peers) Collector(own func() (expiry time.Time, known bool)) prometheus.Collector {
	return &collector{
		peers: p, own: own,
		access: prometheus.NewDesc("roster_peers", "Other clusters by how their API servers are reached.", []string{"access"}, nil),
		ready:  prometheus.NewDesc("roster_peer_ready", "1 while the API server of another cluster can be read, else 0.", []string{"peer"}, nil),
		expiry: prometheus.NewDesc("roster_credential_expiry_timestamp_seconds",
			"When a credential expires: own is the one that peers are given, peer the first to expire of those in use for peers.", []string{"credential"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.access
	out <- c.ready
	out <- c.expiry
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counts, ready, first := c.peers.count()
	for _, a := range []apiconn.Access{
		apiconn.Pending, apiconn.Ready, apiconn.Disabled, apiconn.Missing, apiconn.Invalid, apiconn.Unreachable, apiconn.Wrong,
	} {
		gauge(c.access, float64(counts[a]), cmp.Or(string(a), "Pending"))
	}
	for name, is := range c.peers.named(ready) {
		gauge(c.ready, is, name)
	}
	if own, known := c.own(); known {
		gauge(c.expiry, float64(own.Unix()), "own")
	}
	if !first.IsZero() {
		gauge(c.expiry, float64(first.Unix()), "peer")
	}
}

// count is the number of clusters by access, which of those that are to be read are ready, by clusterID, and the first
// expiry of a credential in use, zero if not known.
func (p *Peers) count() (counts map[apiconn.Access]int, ready map[string]bool, first time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts, ready = map[apiconn.Access]int{}, map[string]bool{}
	for id, t := range p.known {
		if !t.running {
			continue
		}
		counts[t.state.Access]++
		if t.state.Access != apiconn.Disabled {
			ready[id] = t.state.Access == apiconn.Ready
		}
		if e := t.expires; !e.IsZero() && (first.IsZero() || e.Before(first)) {
			first = e
		}
	}
	return counts, ready, first
}

// named is 1 or 0 by the name of a cluster. Of more clusters than may have labels, those that come last in the order of
// their names are one, which is ready when all of them are.
func (p *Peers) named(ready map[string]bool) map[string]float64 {
	names := map[string]bool{}
	for id, is := range ready {
		for _, c := range p.options.Directory.Registry.ByID(id) {
			names[c.Name] = is
		}
	}
	out := map[string]float64{}
	for i, name := range slices.Sorted(maps.Keys(names)) {
		value := 0.0
		if names[name] {
			value = 1
		}
		if i >= metrics.MaxLabels {
			if name = metrics.OtherPeers; i > metrics.MaxLabels {
				value = min(value, out[name])
			}
		}
		out[name] = value
	}
	return out
}
