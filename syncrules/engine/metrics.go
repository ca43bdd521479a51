// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/syncrules"
)

type metrics struct {
	writes    *prometheus.CounterVec
	decisions prometheus.Counter
	slow      prometheus.Counter
}

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
	}
	if r == nil {
		return m, nil
	}
	if err := errors.Join(r.Register(m.writes), r.Register(m.decisions), r.Register(m.slow)); err != nil {
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
