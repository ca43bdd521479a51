// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// ruleCollector shows what each rule's copies add up to, counted when somebody asks.
type ruleCollector struct {
	sums   func() map[string]RuleSum
	counts [5]*prometheus.Desc // matched, synced, failed, conflicts, drifted
	ready  *prometheus.Desc
	paused *prometheus.Desc
}

func newRuleCollector(sums func() map[string]RuleSum) *ruleCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("roster_rule_"+name, help+", by rule.", []string{"rule"}, nil)
	}
	return &ruleCollector{
		sums: sums,
		counts: [5]*prometheus.Desc{
			desc("matched_objects", "Objects that a rule selects at all sources"),
			desc("synced_objects", "Copies that are as they should be"),
			desc("failed_objects", "Copies that could not be written"),
			desc("conflicting_objects", "Objects left alone because something else holds their name"),
			desc("drifted_objects", "Objects that a rule with mode Observe would create, change or delete"),
		},
		ready:  desc("ready", "1 while the rule is Ready as last reported, else 0"),
		paused: desc("paused", "1 while the rule is not Ready because spec.paused is set, as last reported, else 0"),
	}
}

// Describe implements prometheus.Collector.
func (c *ruleCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.counts {
		out <- d
	}
	out <- c.ready
	out <- c.paused
}

// Collect implements prometheus.Collector. Of more rules than may have labels, those that come last in the
// order of their names are one: paused when all of them are, and ready when all that are not paused are.
func (c *ruleCollector) Collect(out chan<- prometheus.Metric) {
	for label, sum := range c.sums() {
		for i, n := range sum.Counts {
			out <- prometheus.MustNewConstMetric(c.counts[i], prometheus.GaugeValue, float64(n), label)
		}
		out <- gauge(c.ready, sum.Ready > 0 && sum.Ready+sum.Paused == sum.Rules, label)
		out <- gauge(c.paused, sum.Paused == sum.Rules, label)
	}
}

func gauge(desc *prometheus.Desc, is bool, label string) prometheus.Metric {
	value := 0.0
	if is {
		value = 1
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
}

// RuleSum is what a label stands for: so many rules, of which some are Ready or paused as last reported.
type RuleSum struct {
	Counts               [5]int32 // matched, synced, failed, conflicts, drifted
	Rules, Ready, Paused int
}
