// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/replica"
)

// maxRefused bounds how many refused objects are remembered, and so logged.
const maxRefused = 1000

// Refusals reports what members published and cannot be used. It is safe for concurrent use.
type Refusals struct {
	log   *slog.Logger
	count prometheus.Counter

	mu   sync.Mutex
	last map[refusal]payload.Number // the number of the last entry that was reported
}

// refusal is what a member published under a key.
type refusal struct {
	key    replica.Key
	origin string
}

// NewRefusals returns refusals that have reported nothing.
func NewRefusals(log *slog.Logger) *Refusals {
	return &Refusals{log: log, last: map[refusal]payload.Number{}, count: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "roster_refused_objects_total", Help: "Objects that members published and that could not be used here.",
	})}
}

// Collector is the metric roster_refused_objects_total.
func (r *Refusals) Collector() prometheus.Collector { return r.count }

// Refuse logs and counts an entry that cannot be used, once for each entry.
func (r *Refusals) Refuse(e replica.Entry, err error) {
	is, key := payload.NumberOf(e), refusal{e.Key, e.Origin}
	r.mu.Lock()
	was, known := r.last[key]
	full := !known && len(r.last) >= maxRefused
	if !full {
		r.last[key] = is
	}
	r.mu.Unlock()
	if was == is {
		return
	}
	if r.count.Inc(); full {
		return // too many to log: only count
	}
	r.log.Warn("an object of a member is refused", "origin", e.Origin, "kind", payload.KindName(e.Key.Kind), "name", e.Key.Name, "error", err)
}
