// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import "github.com/prometheus/client_golang/prometheus"

// collector reports the state of the group. It reads it when it is scraped.
type collector struct {
	group func() *Group // nil before there is one

	leads, led, members, term *prometheus.Desc
}

// NewCollector returns the metrics roster_agents_* of the group that the function returns, nil before there is one.
func NewCollector(group func() *Group) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("roster_agents_"+name, help, nil, nil)
	}
	return &collector{
		group:   group,
		leads:   desc("leads", "1 while this agent leads the agents of its cluster."),
		led:     desc("led", "1 while the agents of this cluster have a leader, as far as this one knows."),
		members: desc("members", "Agents that vote in the group, as far as this one knows; 0 before it is taken in."),
		term:    desc("term", "Term of the group: it rises with each election."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leads, c.led, c.members, c.term} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	g := c.group()
	if g == nil {
		return
	}
	s := g.journal.Status()
	truth := map[bool]float64{true: 1}
	for d, value := range map[*prometheus.Desc]float64{
		c.leads: truth[s.Leads], c.led: truth[s.Leader != ""], c.members: float64(len(s.Servers)), c.term: float64(s.Term),
	} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
}
