// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// newLogger returns the program's logger, and makes what Kubernetes' packages log go there, too. Call serving
// with true when the server is ready, and with false when it begins to end. When one of those packages ends the process,
// fatal is called with what it said last.
func newLogger(to io.Writer, format, level string, fatal func(error)) (log *slog.Logger, serving func(bool), err error) {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, fmt.Errorf("--log-level must be debug, info, warn or error, not %q", level)
	}
	options := &slog.HandlerOptions{Level: at}
	var handler slog.Handler
	switch format {
	case "json":
		handler = slog.NewJSONHandler(to, options)
	case "text":
		handler = slog.NewTextHandler(to, options)
	default:
		return nil, nil, fmt.Errorf("--log-format must be json or text, not %q", format)
	}
	kubernetes := &filter{last: map[string]time.Time{}}
	klog.OsExit = func(int) { fatal(kubernetes.end()) }
	klog.SetSlogLogger(slog.New(filtered{handler, kubernetes}).With("component", "kubernetes"))
	return slog.New(handler), kubernetes.serve, nil
}

const (
	// again is how often the same message is logged.
	again = time.Minute
	// distinct bounds the messages that are remembered.
	distinct = 1000
)

// filter decides what of Kubernetes' log is for the one who runs the server. Information is for those who debug it. So is
// what is logged before the server is ready and when it ends: its parts wait for each other then, and call that errors. What
// is logged in each try of something is told once in a while.
type filter struct {
	mu    sync.Mutex
	ready bool
	last  map[string]time.Time // by level and text
	text  string               // of the last message without attributes: klog.Fatal logs one as information, and ends the process
}

// end is why the process ends.
func (f *filter) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.New(f.text)
}

func (f *filter) serve(ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = ready
}

// level is the one at which a message is logged now.
func (f *filter) level(r slog.Record) slog.Level {
	if r.Level <= slog.LevelInfo {
		if r.NumAttrs() == 0 {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.text = r.Message
		}
		return slog.LevelDebug
	}
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ready || r.Time.Sub(f.last[text]) < again {
		return slog.LevelDebug
	}
	if len(f.last) >= distinct {
		clear(f.last)
	}
	f.last[text] = r.Time
	return r.Level
}

// filtered is a handler behind the filter.
type filtered struct {
	slog.Handler

	filter *filter
}

// Enabled implements slog.Handler. What is below debug is left out: requests with their bodies, and so with Secrets.
func (h filtered) Enabled(ctx context.Context, l slog.Level) bool {
	switch {
	case l < slog.LevelDebug:
		return false
	case l == slog.LevelInfo:
		return true // it may be the last message
	case l < slog.LevelInfo:
		l = slog.LevelDebug
	}
	return h.Handler.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h filtered) Handle(ctx context.Context, r slog.Record) error {
	r.Level = h.filter.level(r)
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h filtered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return filtered{h.Handler.WithAttrs(attrs), h.filter}
}

// WithGroup implements slog.Handler.
func (h filtered) WithGroup(name string) slog.Handler {
	return filtered{h.Handler.WithGroup(name), h.filter}
}
