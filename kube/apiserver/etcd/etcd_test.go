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
	"go.etcd.io/etcd/server/v3/embed"
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
		if err := os.MkdirAll(parent, 0o700); err != nil {
			t.Fatal(err)
		}
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

// A log without a file is damaged: etcd would begin anew.
func TestLostLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := Check(dir); err != nil {
		t.Errorf("a new server: %v", err)
	}
	if err := start(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "member", "wal")
	if err := errors.Join(os.RemoveAll(log), os.Mkdir(log, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir); !errors.Is(err, ErrBroken) || !strings.HasPrefix(err.Error(), log+": ") {
		t.Errorf("got %v", err)
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

var quiet = slog.New(slog.DiscardHandler)

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"192.0.2.1:7380": true, "[2001:db8::1]:7380": true, "server-1.example.com:7380": true,
		"": false, "192.0.2.1": false, ":7380": false, "0.0.0.0:7380": false, "[::]:7380": false, "2001:db8::1:7380": false,
		"a,b:7380": false, "a=b:7380": false, "%zz:7380": false, "a b:7380": false, "user@host:7380": false, "a/b:7380": false,
		"fe80::1%eth0:7380": false, "[fe80::1%eth0]:7380": false, "192.0.2.1:07380": false, "server_1:7380": true,
		"192.0.2.1:0": false, "192.0.2.1:http": false, "192.0.2.1:70000": false,
	} {
		if err := CheckAddress(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// A directory for temporary files whose own path is too long is not used.
func TestLongTMPDIR(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	if err := start(t, filepath.Join(long, "etcd")).Close(); err != nil {
		t.Fatal(err)
	}
}

// A client on the same machine finds the server, also where the path of the socket would be too long.
func TestDial(t *testing.T) {
	t.Parallel()
	for _, below := range []string{"d", strings.Repeat("long/", 30)} {
		dir := filepath.Join(t.TempDir(), below, "etcd")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(t.Context(), dir, quiet); !errors.Is(err, ErrNoSocket) {
			t.Errorf("no server: %v", err)
		}
		for range 2 { // also after an end
			s, err := Start(t.Context(), Options{Dir: dir, Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(filepath.Dir(dir), socketName)); err != nil || info.Mode().Perm() != 0o600 {
				t.Error(info, err)
			}
			client, err := Dial(t.Context(), dir, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Put(t.Context(), "key", "x"); err != nil {
				t.Error(err)
			}
			if err := errors.Join(client.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A server that ended says so.
func TestEnd(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "etcd"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.etcd.Server.Stop()
	if err := <-s.Err(); err == nil {
		t.Error("no reason")
	}
}

// A server that is alone elects itself soon. Of several, the times are etcd's own.
func TestElectionTime(t *testing.T) {
	t.Parallel()
	own := embed.NewConfig()
	several := (&Server{}).config(Options{Peer: &Peer{Address: "server-1.example.com:7380"}, Log: slog.New(slog.DiscardHandler)})
	if several.TickMs != own.TickMs || several.ElectionMs != own.ElectionMs {
		t.Errorf("several servers have a tick of %d ms and elect after %d ms", several.TickMs, several.ElectionMs)
	}
	one := (&Server{}).config(Options{Log: slog.New(slog.DiscardHandler)})
	if one.ElectionMs > own.ElectionMs/2 || one.TickMs < own.TickMs {
		t.Errorf("a server that is alone has a tick of %d ms and elects itself after %d ms", one.TickMs, one.ElectionMs)
	}
}
