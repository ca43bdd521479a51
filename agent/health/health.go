// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Health reports whether the agent is ready: it has synced with the local API server, and has an address that other
// clusters can dial. Ready does not depend on other clusters: a cluster that is alone, or cut off, is no reason to
// restart a pod.
type Health struct {
	pages atomic.Pointer[http.ServeMux] // of the current start

	mu      sync.Mutex
	isReady bool
	reasons map[string]string // by owner: why the agent is not ready
	follows *string           // why a follower is not ready, "" when it is; nil for an agent that does not follow
}

// New returns the health of an agent that is not ready. Before Serve, its handler has only /healthz and /readyz.
func New() *Health {
	h := &Health{reasons: map[string]string{}}
	h.pages.Store(http.NewServeMux())
	return h
}

// Collector is the metric roster_ready.
func (h *Health) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roster_ready", Help: "1 while the agent is ready, as /readyz says.",
	}, func() float64 {
		if h.NotReady() == "" {
			return 1
		}
		return 0
	})
}

// Serve sets the pages that the handler serves beside /healthz and /readyz. They replace the pages of an earlier start.
func (h *Health) Serve(pages *http.ServeMux) { h.pages.Store(pages) }

// Ready reports that the agent has synced with the local API server.
func (h *Health) Ready() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isReady = true
}

// SetNotReady reports, in one line, why the agent is not ready; "" clears it. Each owner has one line.
func (h *Health) SetNotReady(owner, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reasons[owner] = line; line == "" {
		delete(h.reasons, owner)
	}
}

// Follow makes the agent a follower in its group. line is why it is not ready, "" when it is.
func (h *Health) Follow(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isReady = false
	clear(h.reasons) // from the start that has ended
	h.follows = &line
}

// SetFollowReason changes the line of a follower. It does nothing for other agents.
func (h *Health) SetFollowReason(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follows != nil {
		h.follows = &line
	}
}

// Lead ends Follow: the agent was elected.
func (h *Health) Lead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.follows = nil
}

// NotReady is why the agent is not ready, as /readyz answers; "" when it is.
func (h *Health) NotReady() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(h.reasons) > 0:
		var lines []string
		for _, owner := range slices.Sorted(maps.Keys(h.reasons)) {
			lines = append(lines, h.reasons[owner])
		}
		return strings.Join(lines, "; ")
	case h.follows != nil:
		return *h.follows
	case !h.isReady:
		return "not caught up with the local API server yet"
	}
	return ""
}

// Handler serves /healthz, /readyz, and the pages.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if line := h.NotReady(); line != "" {
			http.Error(w, line, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.pages.Load().ServeHTTP(w, r) })
	return mux
}
