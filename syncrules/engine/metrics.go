// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/syncrules"
)

type metrics struct {
	matches   *atomic.Int64 // counts how often a rule is asked about an object, in a test; nil otherwise
	writes    *prometheus.CounterVec
	decisions prometheus.Counter
	slow      prometheus.Counter
	lags      *prometheus.HistogramVec
	labels    map[string]prometheus.Observer // of the rules that have a label of their own; Engine.mu guards it
}

// maxLabels is how many rules have a label of their own: what comes after is summed up as otherRules.
const maxLabels = 200

const otherRules = "other rules" // no object can have that name

// newMetrics registers with r, if it is not nil.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "roster_sync_writes_total",
			Help: "Writes of copies to the local API server, by action and result.",
		}, []string{"action", "result"}),
		decisions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "roster_sync_decisions_total",
			Help: "Looks at one copy and all that is known of it. None are made while nothing changes.",
		}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "roster_sync_slowed_total",
			Help: "Writes that were put off because an object changed too often.",
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
	if err := errors.Join(r.Register(m.writes), r.Register(m.decisions), r.Register(m.slow), r.Register(m.lags)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) write(action syncrules.Action, err error) {
	result := "ok"
	switch {
	case errors.Is(err, errRace):
		result = "conflict"
	case err != nil:
		result = "error"
	}
	m.writes.WithLabelValues(action.String(), result).Inc()
}

func (m *metrics) slowed() { m.slow.Inc() }

// lagLocked takes in how long a change of a rule's copy took.
func (m *metrics) lagLocked(rule string, took time.Duration) {
	o := m.labels[rule]
	if o == nil && len(m.labels) >= maxLabels {
		rule = otherRules
		o = m.labels[rule]
	}
	if o == nil {
		o = m.lags.WithLabelValues(rule)
		m.labels[rule] = o
	}
	o.Observe(took.Seconds())
}

// forgetLocked ends the label of a rule.
func (m *metrics) forgetLocked(rule string) {
	if _, found := m.labels[rule]; found {
		delete(m.labels, rule)
		m.lags.DeleteLabelValues(rule)
	}
}
