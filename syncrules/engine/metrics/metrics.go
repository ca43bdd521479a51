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

	writes       *prometheus.CounterVec
	rules, peers *lags
}

// MaxLabels is how many rules have a label of their own, and how many clusters: what comes after is summed up as OtherRules
// or OtherPeers.
const MaxLabels = 200

// OtherRules and OtherPeers are the labels of all others. No object can have such a name.
const (
	OtherRules = "other rules"
	OtherPeers = "other clusters"
)

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
		rules: newLags("roster_rule_lag_seconds", "rule", OtherRules, "Time from a source's event to the applied copy, by rule.",
			.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300),
		peers: newLags("roster_peer_lag_seconds", "peer", OtherPeers, "Time from a source's event to the applied copy, by the source's cluster.",
			.025, .1, .5, 2.5, 10, 60, 300),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range [...]prometheus.Collector{m.writes, m.Decisions, m.Slowed, m.Waiting, m.rules.vec, m.peers.vec, newRuleCollector(sums)} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// Write counts a write that was made, failed, or lost a race.
func (m *Metrics) Write(action syncrules.Action, err, race error) {
	result := "ok"
	switch {
	case errors.Is(err, race):
		result = "conflict"
	case err != nil:
		result = "error"
	}
	m.writes.WithLabelValues(action.String(), result).Inc()
}

// RuleLag takes in how long a change of a rule's copy took. The caller's lock guards the labels, here and below.
func (m *Metrics) RuleLag(rule string, took time.Duration) { m.rules.observe(rule, took) }

// PeerLag takes in how long a change of a cluster's object took to its copy.
func (m *Metrics) PeerLag(cluster string, took time.Duration) { m.peers.observe(cluster, took) }

// ForgetRule ends the label of a rule.
func (m *Metrics) ForgetRule(rule string) { m.rules.forget(rule) }

// ForgetPeer ends the label of a cluster.
func (m *Metrics) ForgetPeer(cluster string) { m.peers.forget(cluster) }

// lags is a histogram of which at most MaxLabels names have a label of their own.
type lags struct {
	vec    *prometheus.HistogramVec
	others string                         // the label of the rest
	labels map[string]prometheus.Observer // in use
}

func newLags(name, label, others, help string, buckets ...float64) *lags {
	return &lags{
		vec:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label}),
		others: others, labels: map[string]prometheus.Observer{},
	}
}

func (l *lags) observe(label string, took time.Duration) {
	o := l.labels[label]
	if o == nil && len(l.labels) >= MaxLabels {
		label = l.others
		o = l.labels[label]
	}
	if o == nil {
		o = l.vec.WithLabelValues(label)
		l.labels[label] = o
	}
	o.Observe(took.Seconds())
}

func (l *lags) forget(label string) {
	if _, found := l.labels[label]; found {
		delete(l.labels, label)
		l.vec.DeleteLabelValues(label)
	}
}
