// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ruleCollector shows what each rule's copies add up to, counted when somebody asks.
type ruleCollector struct {
	engine *Engine
	counts [4]*prometheus.Desc // matched, synced, failed, conflicts
	ready  *prometheus.Desc
	paused *prometheus.Desc
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
	for label, sum := range c.engine.ruleSums() {
		for i, n := range sum.counts {
			out <- prometheus.MustNewConstMetric(c.counts[i], prometheus.GaugeValue, float64(n), label)
		}
		out <- gauge(c.ready, sum.ready > 0 && sum.ready+sum.paused == sum.rules, label)
		out <- gauge(c.paused, sum.paused == sum.rules, label)
	}
}

func gauge(desc *prometheus.Desc, is bool, label string) prometheus.Metric {
	value := 0.0
	if is {
		value = 1
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
}

// ruleSum is what a label stands for.
type ruleSum struct {
	counts               [4]int32
	rules, ready, paused int
}

func (e *Engine) ruleSums() map[string]ruleSum {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]ruleSum, min(len(e.rules.byName), maxLabels+1))
	for i, name := range slices.Sorted(maps.Keys(e.rules.byName)) {
		r := e.rules.byName[name]
		if i >= maxLabels {
			name = otherRules
		}
		sum := out[name]
		sum.rules++
		if s := r.sender.last; s != nil {
			switch c := meta.FindStatusCondition(s.Conditions, ConditionReady); {
			case c == nil:
			case c.Status == metav1.ConditionTrue:
				sum.ready++
			case c.Reason == ReasonPaused:
				sum.paused++
			}
		}
		for i, n := range [...]int32{r.tally.Matched, r.tally.Synced, r.tally.Failed, r.tally.Conflicts} {
			sum.counts[i] += n
		}
		out[name] = sum
	}
	return out
}
