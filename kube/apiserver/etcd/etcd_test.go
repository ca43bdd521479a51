// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func client(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// What was written is there after an end in order, and nobody else may open the socket. A path that is too long for a
// socket is no obstacle.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 30))} {
		dir := filepath.Join(parent, "etcd")
		s := start(t, dir)
		info, err := os.Stat(s.socket)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket has mode %v, %v", info.Mode(), err)
		}
		if !s.Leads() {
			t.Error("the only member does not lead")
		}
		if _, err := client(t, s).Put(t.Context(), "key", "value"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir); err != nil {
			t.Errorf("data of a server that ended: %v", err)
		}
		s = start(t, dir)
		got, err := client(t, s).Get(t.Context(), "key")
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "value" {
			t.Errorf("got %v, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(s.socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket stayed: %v", err)
		}
	}
}

// A start that cannot be names the directory, and leaves nothing that runs.
func TestStartFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir = filepath.Join(t.TempDir(), "etcd")
	if s, err := Start(ctx, Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err == nil {
		_ = s.Close() // it was ready before it looked
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	start(t, dir).Close() //nolint:errcheck // It starts: the one before has ended.
}
