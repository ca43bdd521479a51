// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs etcd inside the process of the API server. It listens on a unix socket that only the owner of the
// process may open, and writes to disk before it acknowledges.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	// maxSocketPath is what an address of a unix socket holds on all systems.
	maxSocketPath = 100
	socketName    = "etcd.sock"
	// slowApply is how long a request may take before it is logged: the disk is slow then, and not only busy.
	slowApply = time.Second
	// unreachable is the address of a member for others while it is alone. etcd wants one.
	unreachable = "http://localhost:0"
)

// Options of Start. All are required.
type Options struct {
	Dir string // directory of the data; the socket lies beside it
	Log *slog.Logger
}

// Server is etcd with one member.
type Server struct {
	etcd   *embed.Etcd
	socket string
	temp   string // directory of the socket, when that of the data has too long a path
	ready  atomic.Bool
}

// Start returns when the server answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{socket: filepath.Join(filepath.Dir(o.Dir), socketName)}
	if err := s.start(ctx, o); err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", o.Dir, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) (err error) {
	if len(s.socket) > maxSocketPath {
		if s.temp, err = os.MkdirTemp("", "roster-etcd-"); err != nil {
			return err
		}
		s.socket = filepath.Join(s.temp, socketName)
	}
	if s.etcd, err = embed.StartEtcd(s.config(o)); err != nil {
		return err
	}
	if err := os.Chmod(s.socket, 0o600); err != nil {
		return err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		s.ready.Store(true)
		return nil
	case err := <-s.etcd.Err():
		return err
	case <-s.etcd.Server.StopNotify():
		return errors.New("it ended by itself")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) config(o Options) *embed.Config {
	c := embed.NewConfig()
	c.Name = "roster-apiserver"
	c.Dir = o.Dir
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: s.socket}}
	c.AdvertiseClientUrls = c.ListenClientUrls
	c.ListenPeerUrls = nil
	peer, _ := url.Parse(unreachable) // it is a constant
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = slowApply, slowApply
	// The API server compacts; and nobody uses etcd's gateway for JSON.
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(&core{log: o.Log.With("component", "etcd"), ready: &s.ready}))
	return c
}

// Endpoint is where clients in this process reach the server.
func (s *Server) Endpoint() string { return "unix://" + s.socket }

// Leads says whether this member leads at the moment.
func (s *Server) Leads() bool { return s.etcd.Server.Leader() == s.etcd.Server.MemberID() }

// Err delivers an error with which the server ended by itself.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Close returns when the server has ended.
func (s *Server) Close() error {
	s.ready.Store(false)
	if s.etcd != nil {
		s.etcd.Close()
	}
	if s.temp == "" {
		return nil
	}
	return os.RemoveAll(s.temp)
}
