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

// Health says whether the agent is ready. Ready means: caught up with the local API server and serving, at an address
// that other clusters can be told. It does not mean joined: a cluster that is alone, or cut off, is no reason to restart
// a pod.
type Health struct {
	pages atomic.Pointer[http.ServeMux] // of the start that is under way

	mu       sync.Mutex
	isReady  bool
	waitsFor map[string]string // owner → why the agent is not ready
	follows  *string           // why an agent that follows another is not ready, "" when it is: it has what the group has; nil for all others
}

// New returns the health of an agent that is not ready. It serves nothing but itself before Serve.
func New() *Health {
	h := &Health{waitsFor: map[string]string{}}
	h.pages.Store(http.NewServeMux())
	return h
}

// Collector is the metric of it.
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

// Serve makes pages those that are served beside /healthz and /readyz: of a start, those of its parts.
func (h *Health) Serve(pages *http.ServeMux) { h.pages.Store(pages) }

// Ready says that the agent has caught up.
func (h *Health) Ready() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isReady = true
}

// WaitFor is where a part says in one line why the agent is not ready; "" when nothing of it is in its way any more.
func (h *Health) WaitFor(owner, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waitsFor[owner] = line; line == "" {
		delete(h.waitsFor, owner)
	}
}

// Follow says that this agent follows another one of its cluster, which makes it ready, or why it does not.
func (h *Health) Follow(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isReady = false
	clear(h.waitsFor) // of the start that ended
	h.follows = &line
}

// Following changes the line of an agent that follows; of others it is ignored.
func (h *Health) Following(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follows != nil {
		h.follows = &line
	}
}

// Lead ends Follow.
func (h *Health) Lead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.follows = nil
}

// NotReady is the line that /readyz answers with, "" when the agent is ready.
func (h *Health) NotReady() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(h.waitsFor) > 0:
		var lines []string
		for _, owner := range slices.Sorted(maps.Keys(h.waitsFor)) {
			lines = append(lines, h.waitsFor[owner])
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
