// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// origins are the other clusters that are trusted.
func (s *session) origins() []string {
	pins := s.trust.Pins()
	out := make([]string, 0, len(pins))
	for _, p := range pins {
		out = append(out, p.ClusterID)
	}
	return out
}

// accessCollector shows how the agent fares with API servers, looked up when somebody asks.
type accessCollector struct {
	session                        *session
	peers, expiry, oldest, restore *prometheus.Desc
}

func newAccessCollector(s *session) *accessCollector {
	return &accessCollector{
		session: s,
		peers:   prometheus.NewDesc("roster_peers", "Other clusters by how their API servers are reached.", []string{"access"}, nil),
		expiry: prometheus.NewDesc("roster_credential_expiry_timestamp_seconds",
			"When a credential expires: own is the one that peers are given, peer the first to expire of those in use for peers.", []string{"credential"}, nil),
		oldest: prometheus.NewDesc("roster_import_oldest_seconds",
			"How long the oldest change that was heard of another cluster's objects has not been applied here; 0 for none.", nil, nil),
		restore: prometheus.NewDesc("roster_restore_unconfirmed",
			"1 while this cluster publishes nothing because its API server went back in time and nobody has confirmed that.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *accessCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.peers, c.expiry, c.oldest, c.restore} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *accessCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counts, first := c.session.peers.count()
	for _, a := range []access{accessPending, accessReady, accessDisabled, accessMissing, accessInvalid, accessUnreachable, accessWrong} {
		gauge(c.peers, float64(counts[a]), cmp.Or(string(a), "Pending"))
	}
	if own := c.session.ownUntil.Load(); own > 0 {
		gauge(c.expiry, float64(own), "own")
	}
	if !first.IsZero() {
		gauge(c.expiry, float64(first.Unix()), "peer")
	}
	gauge(c.oldest, c.session.incoming.oldest(time.Now()).Seconds())
	restored := 0.0
	if c.session.restore.isFrozen() {
		restored = 1
	}
	gauge(c.restore, restored)
}

// count is how many clusters are reached in which way, and when the first credential in use expires.
func (p *peers) count() (counts map[access]int, first time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts = map[access]int{}
	for _, peer := range p.known {
		if !peer.running {
			continue
		}
		counts[peer.state.access]++
		if e := peer.expires; !e.IsZero() && (first.IsZero() || e.Before(first)) {
			first = e
		}
	}
	return counts, first
}

// newBuildInfo says what runs, as the labels of a constant.
func newBuildInfo(version, commit string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roster_build_info", Help: "1, with what this agent was built from as labels.",
		ConstLabels: prometheus.Labels{
			"version": cmp.Or(version, "unknown"), "commit": cmp.Or(commit, "unknown"), "goversion": runtime.Version(),
		},
	}, func() float64 { return 1 })
}
