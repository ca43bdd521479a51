// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// health serves /metrics, /healthz and /readyz. Ready means: caught up with the local API server and
// serving, at an address that other clusters can be told. It does not mean joined: a cluster that is alone,
// or cut off, is no reason to restart a pod.
type health struct {
	metrics  atomic.Pointer[prometheus.Registry] // of the start that is under way
	mux      *http.ServeMux
	pprof    bool
	isReady  atomic.Bool
	waitsFor atomic.Value           // string
	follows  atomic.Pointer[string] // why an agent that follows another is not ready, "" when it is: it has what the group has; nil for all others
}

// newHealth adds its pages to mux, which others may add theirs to, once for all starts.
func newHealth(mux *http.ServeMux, metrics *prometheus.Registry, profiles bool) *health {
	h := &health{mux: mux, pprof: profiles}
	h.serve(metrics)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(h.metrics.Load(), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if line := h.notReady(); line != "" {
			http.Error(w, line, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return h
}

// serve makes /metrics those of another start.
func (h *health) serve(metrics *prometheus.Registry) {
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roster_ready", Help: "1 while the agent is ready, as /readyz says.",
	}, func() float64 {
		if h.notReady() == "" {
			return 1
		}
		return 0
	}))
	h.metrics.Store(metrics)
}

func (h *health) ready() { h.isReady.Store(true) }

// waitFor is the line that says why the agent is not ready; "" when nothing is in its way any more.
func (h *health) waitFor(line string) { h.waitsFor.Store(line) }

// follow says that this agent follows another one of its cluster, which makes it ready, or why it does not.
func (h *health) follow(line string) {
	h.isReady.Store(false)
	h.waitsFor.Store("") // of the session that ended
	h.follows.Store(&line)
}

// following changes the line of an agent that follows.
func (h *health) following(line string) {
	if old := h.follows.Load(); old != nil && *old != line {
		h.follows.CompareAndSwap(old, &line)
	}
}

// lead ends follow.
func (h *health) lead() { h.follows.Store(nil) }

// notReady is the line that /readyz answers with, "" when the agent is ready.
func (h *health) notReady() string {
	if line, ok := h.waitsFor.Load().(string); ok && line != "" {
		return line
	}
	if line := h.follows.Load(); line != nil {
		return *line
	}
	if !h.isReady.Load() {
		return "not caught up with the local API server yet"
	}
	return ""
}

type httpServer struct {
	listener net.Listener
	server   *http.Server
}

// listen opens the port, so that one that is taken is one line at the start.
func (h *health) listen(ctx context.Context, address string) (*httpServer, error) {
	if address == "" {
		return &httpServer{}, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http-listen: cannot listen on %s: %w; choose another port or stop what uses it", address, err)
	}
	writeTimeout := 30 * time.Second
	if h.pprof {
		writeTimeout = profileTimeout
	}
	return &httpServer{listener: listener, server: &http.Server{Handler: h.mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: writeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}}, nil
}

// profileTimeout is longer than any profile that is worth taking.
const profileTimeout = 5 * time.Minute

// run serves until ctx ends.
func (s *httpServer) run(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.server.Close() })
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}
