// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import "github.com/prometheus/client_golang/prometheus"

// agentsCollector shows how the group of agents of this cluster is, when somebody asks.
type agentsCollector struct {
	group func() *group // nil before there is one

	leads, led, members, term *prometheus.Desc
}

func newAgentsCollector(group func() *group) *agentsCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("roster_agents_"+name, help, nil, nil)
	}
	return &agentsCollector{
		group:   group,
		leads:   desc("leads", "1 while this agent leads the agents of its cluster."),
		led:     desc("led", "1 while the agents of this cluster have a leader, as far as this one knows."),
		members: desc("members", "Agents that vote in the group, as far as this one knows; 0 before it is taken in."),
		term:    desc("term", "Term of the group: it rises with each election."),
	}
}

// Describe implements prometheus.Collector.
func (c *agentsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leads, c.led, c.members, c.term} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *agentsCollector) Collect(out chan<- prometheus.Metric) {
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
