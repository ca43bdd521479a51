// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/syncrules"
)

// Metrics are what is counted as it happens.
type Metrics struct {
	Decisions prometheus.Counter // looks at one copy
	Slowed    prometheus.Counter // writes that were put off because an object changed too often
	Waiting   prometheus.Gauge   // copies that wait because of their cluster's quota

	writes *prometheus.CounterVec
	lags   *prometheus.HistogramVec
	labels map[string]prometheus.Observer // of the rules that have a label of their own; the caller's lock guards it
}

// MaxLabels is how many rules have a label of their own: what comes after is summed up as OtherRules.
const MaxLabels = 200

// OtherRules is the label of all other rules. No object can have that name.
const OtherRules = "other rules"

// New registers with r, if it is not nil. sums returns the sum of each label of rules.
func New(r prometheus.Registerer, sums func() map[string]RuleSum) (*Metrics, error) {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roster_sync_writes_total",
			Help: "Writes of copies to the local API server, by action and result.",
		}, []string{"action", "result"}),
		Decisions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "roster_sync_decisions_total",
			Help: "Looks at one copy and all that is known of it. None are made while nothing changes.",
		}),
		Slowed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "roster_sync_slowed_total",
			Help: "Writes that were put off because an object changed too often.",
		}),
		Waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "roster_sync_waiting_copies",
			Help: "Copies whose newest content is not written yet because their source cluster has used up what may be written here because of it.",
		}),
		lags: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "roster_rule_lag_seconds",
			Help:    "Time from a source's event to the applied copy, by rule.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"rule"}),
		labels: map[string]prometheus.Observer{},
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range [...]prometheus.Collector{m.writes, m.Decisions, m.Slowed, m.Waiting, m.lags, newRuleCollector(sums)} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// Write counts a write, whose result is ok, conflict or error.
func (m *Metrics) Write(action syncrules.Action, result string) {
	m.writes.WithLabelValues(action.String(), result).Inc()
}

// Lag takes in how long a change of a rule's copy took.
func (m *Metrics) Lag(rule string, took time.Duration) {
	o := m.labels[rule]
	if o == nil && len(m.labels) >= MaxLabels {
		rule = OtherRules
		o = m.labels[rule]
	}
	if o == nil {
		o = m.lags.WithLabelValues(rule)
		m.labels[rule] = o
	}
	o.Observe(took.Seconds())
}

// Forget ends the label of a rule.
func (m *Metrics) Forget(rule string) {
	if _, found := m.labels[rule]; found {
		delete(m.labels, rule)
		m.lags.DeleteLabelValues(rule)
	}
}
