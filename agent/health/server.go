// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Server serves the HTTP port (--http-listen).
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen opens the port, so that a port that is in use is one error at the start. An empty address means no port. With
// profiles, it also serves Go's profiles: whoever reaches the port can then read what is in memory.
func Listen(ctx context.Context, address string, h *Health, profiles bool) (*Server, error) {
	if address == "" {
		return &Server{}, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http-listen: cannot listen on %s: %w; choose another port or stop what uses it", address, err)
	}
	handler, writeTimeout := h.Handler(), 30*time.Second
	if profiles {
		handler, writeTimeout = withProfiles(handler), profileTimeout
	}
	return &Server{listener: listener, server: &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: writeTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}, nil
}

// profileTimeout is longer than any useful profile.
const profileTimeout = 5 * time.Minute

func withProfiles(other http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", other)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
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
