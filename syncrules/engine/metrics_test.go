// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules/engine/metrics"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// Rules and clusters beyond the bound share one label; a label ends with its rule or cluster.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	e := &Engine{rules: newRuleSet()}
	m, err := metrics.New(registry, e.ruleSums)
	if err != nil {
		t.Fatal(err)
	}
	for i := range metrics.MaxLabels + 50 {
		name := fmt.Sprintf("rule-%03d", i)
		e.rules.byName[name] = &rule{name: name, tally: tally.Tally{Matched: 2, Synced: 1}}
		m.RuleLag(name, time.Millisecond)
		m.PeerLag(name, time.Millisecond)
	}
	m.ForgetRule("rule-000")
	m.ForgetPeer("rule-000")
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
			if n != metrics.MaxLabels+1 || last != metrics.OtherRules || f.GetMetric()[0].GetGauge().GetValue() != 100 {
				t.Errorf("%d series, the first of %q: %v", n, last, f.GetMetric()[0])
			}
		case "roster_peer_lag_seconds":
			if n != metrics.MaxLabels || last != metrics.OtherPeers || f.GetMetric()[0].GetHistogram().GetSampleCount() != 50 {
				t.Errorf("%d series, the first of %q: %v", n, last, f.GetMetric()[0])
			}
		case "roster_rule_lag_seconds":
			if n != metrics.MaxLabels || last != metrics.OtherRules || f.GetMetric()[0].GetHistogram().GetSampleCount() != 50 {
				t.Errorf("%d series, the first of %q: %v", n, last, f.GetMetric()[0])
			}
		}
	}
}

// A paused rule is told from one that is not Ready, also where many share a label.
func TestPausedRulesAreTold(t *testing.T) {
	t.Parallel()
	told := func(status metav1.ConditionStatus, reason string) tally.Sender {
		return tally.Sender{Last: &RuleReport{Conditions: []metav1.Condition{{Type: ConditionReady, Status: status, Reason: reason}}}}
	}
	ready, broken, paused := told(metav1.ConditionTrue, problem.ReasonSynced), told(metav1.ConditionFalse, problem.ReasonConflict), told(metav1.ConditionFalse, problem.ReasonPaused)
	for what, tc := range map[string]struct {
		senders       []tally.Sender
		ready, paused float64
	}{
		"ready":                {[]tally.Sender{ready}, 1, 0},
		"not ready":            {[]tally.Sender{broken}, 0, 0},
		"not reported":         {[]tally.Sender{{}}, 0, 0},
		"paused":               {[]tally.Sender{paused}, 0, 1},
		"ready and paused":     {[]tally.Sender{ready, paused}, 1, 0},
		"not ready and paused": {[]tally.Sender{broken, paused, ready}, 0, 0},
		"all paused":           {[]tally.Sender{paused, paused}, 0, 1},
	} {
		e := &Engine{rules: newRuleSet()}
		for i := range metrics.MaxLabels { // so that the others share a label
			e.rules.byName[fmt.Sprintf("a-%03d", i)] = &rule{}
		}
		for i := range tc.senders {
			e.rules.byName[fmt.Sprintf("b-%d", i)] = &rule{sender: tc.senders[i]}
		}
		registry := prometheus.NewRegistry()
		if _, err := metrics.New(registry, e.ruleSums); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			want, ok := map[string]float64{"roster_rule_ready": tc.ready, "roster_rule_paused": tc.paused}[f.GetName()]
			if !ok {
				continue
			}
			got := f.GetMetric()[0]
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == metrics.OtherRules {
					got = m
				}
			}
			if value := got.GetGauge().GetValue(); value != want {
				t.Errorf("%s: %s is %v", what, f.GetName(), value)
			}
		}
	}
}
