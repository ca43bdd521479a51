// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Rules beyond the bound share one label; a label ends with its rule.
func TestRuleLabelsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{rules: map[string]*rule{}, metrics: m}
	registry.MustRegister(newRuleCollector(e))
	for i := range maxLabels + 50 {
		name := fmt.Sprintf("rule-%03d", i)
		e.rules[name] = &rule{name: name, tally: tally{matched: 2, synced: 1}}
		m.lag(name, time.Millisecond)
	}
	m.forget("rule-000")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		last := ""
		if n := len(f.GetMetric()); n > 0 && len(f.GetMetric()[0].GetLabel()) == 1 {
			last = f.GetMetric()[0].GetLabel()[0].GetValue()
		}
		switch n := len(f.GetMetric()); f.GetName() {
		case "roster_rule_matched_objects":
			if n != maxLabels+1 || last != otherRules || f.GetMetric()[0].GetGauge().GetValue() != 100 {
				t.Errorf("%d series, the first of %q: %v", n, last, f.GetMetric()[0])
			}
		case "roster_rule_lag_seconds":
			if n != maxLabels || last != otherRules || f.GetMetric()[0].GetHistogram().GetSampleCount() != 50 {
				t.Errorf("%d series, the first of %q: %v", n, last, f.GetMetric()[0])
			}
		}
	}
}
