// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
)

// ruleCollector shows what each rule's copies add up to, counted when somebody asks.
type ruleCollector struct {
	engine *Engine
	counts [4]*prometheus.Desc // matched, synced, failed, conflicts
	ready  *prometheus.Desc
}

func newRuleCollector(e *Engine) *ruleCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("roster_rule_"+name, help+", by rule.", []string{"rule"}, nil)
	}
	return &ruleCollector{
		engine: e,
		counts: [4]*prometheus.Desc{
			desc("matched_objects", "Objects that a rule selects at all sources"),
			desc("synced_objects", "Copies that are as they should be"),
			desc("failed_objects", "Copies that could not be written"),
			desc("conflicting_objects", "Objects left alone because something else holds their name"),
		},
		ready: desc("ready", "1 while the rule is Ready as last reported, else 0"),
	}
}

// Describe implements prometheus.Collector.
func (c *ruleCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.counts {
		out <- d
	}
	out <- c.ready
}

// Collect implements prometheus.Collector. Of more rules than may have labels, those that come last in the
// order of their names are one: ready when all of them are.
func (c *ruleCollector) Collect(out chan<- prometheus.Metric) {
	for label, sum := range c.engine.ruleSums() {
		for i, n := range sum.counts {
			out <- prometheus.MustNewConstMetric(c.counts[i], prometheus.GaugeValue, float64(n), label)
		}
		out <- prometheus.MustNewConstMetric(c.ready, prometheus.GaugeValue, sum.ready, label)
	}
}

// ruleSum is what a label stands for.
type ruleSum struct {
	counts [4]int32
	ready  float64
}

func (e *Engine) ruleSums() map[string]ruleSum {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]ruleSum, min(len(e.rules), maxLabels+1))
	for i, name := range slices.Sorted(maps.Keys(e.rules)) {
		r := e.rules[name]
		ready := 0.0
		if s := r.sender.last; s != nil && meta.IsStatusConditionTrue(s.Conditions, ConditionReady) {
			ready = 1
		}
		if i >= maxLabels {
			name = otherRules
		}
		sum, found := out[name]
		if !found {
			sum.ready = ready
		}
		sum.ready = min(sum.ready, ready)
		for i, n := range [...]int32{r.tally.matched, r.tally.synced, r.tally.failed, r.tally.conflicts} {
			sum.counts[i] += n
		}
		out[name] = sum
	}
	return out
}
