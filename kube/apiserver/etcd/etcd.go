// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs etcd inside the process of the API server. It listens on a unix socket that only the owner of the
// process may open, and writes to disk before it acknowledges. Several servers of one cluster are members of one etcd,
// and reach each other on a port of its own.
package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clienttransport "go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
)

const (
	// maxSocketPath is what an address of a unix socket holds on all systems.
	maxSocketPath = 100
	socketName    = "etcd.sock"
	// slowApply is how long a request may take before it is logged: the disk is slow then, and not only busy.
	slowApply = time.Second
	// unreachable is the address of a member for others while it is alone. etcd wants one.
	unreachable = "http://localhost:0"
	// alone is the name of a member that has no address.
	alone = "roster-apiserver"

	// aloneElection, in milliseconds, is how long a server that is alone waits at most before it elects itself, for another
	// server might have been elected; etcd's own time is a second. It is at least one tick, 0.1 s: before that etcd has not
	// written the state from which it tells the version of its data, and would log an error.
	aloneElection = 500

	updateTimeout = 30 * time.Second
	learnerPoll   = 100 * time.Millisecond
)

// Alone returns the name and the URL of a member that is alone.
func Alone() (name, url string) { return alone, unreachable }

// Options of Start. Dir and Log are required.
type Options struct {
	Dir  string // directory of the data; the socket lies beside it
	Peer *Peer  // nil for a server that is alone
	// Join are the addresses of all servers, this one among them, when it is to become one of them. It counts while Dir
	// has no data.
	Join []string
	// Force makes a member of several the only one, with all that it has, as if it had been elected.
	Force bool
	// Fatal is called with the reason before etcd ends the process, or panics, as when the disk is full; nil for nothing.
	Fatal func(error)
	Log   *slog.Logger
}

// Server is one member of etcd.
type Server struct {
	etcd     *embed.Etcd
	client   *clientv3.Client
	socket   string
	temp     string       // directory of the socket, when that of the data has too long a path
	listener net.Listener // for peers; nil when alone
	peers    *http.Server
	ready    atomic.Bool
	writes   writes // of clients on the socket

	ended   chan error // gets one error when the server ends by itself
	once    sync.Once
	closing chan struct{}
}

// Start returns when the server answers. One that joins others answers once the leader has made it a voter.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{ended: make(chan error, 1), closing: make(chan struct{})}
	if err := s.start(ctx, o); err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", o.Dir, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) (err error) {
	if err := s.placeSocket(o.Dir); err != nil {
		return err
	}
	if o.Peer != nil {
		if s.listener, err = o.Peer.listen(); err != nil {
			return err
		}
	}
	if s.etcd, err = embed.StartEtcd(s.config(o)); err != nil {
		return err
	}
	s.client = v3client.New(s.etcd.Server)
	if o.Peer != nil {
		s.servePeers(o)
	}
	go s.watch()
	if err := os.Chmod(s.socket, 0o600); err != nil {
		return err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		s.ready.Store(true)
	case err := <-s.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	if o.Peer != nil {
		following, stop := context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			<-s.closing
			stop()
		}()
		go s.followLeaders(following)
		if err := s.updatePeer(ctx, o.Peer); err != nil {
			return err
		}
	}
	return s.awaitVote(ctx, o)
}

// placeSocket finds a path for the socket that is short enough. Where that is not beside the data, a link there leads to it.
func (s *Server) placeSocket(dir string) (err error) {
	beside := filepath.Join(filepath.Dir(dir), socketName)
	if target, err := os.Readlink(beside); err == nil { // of a start that did not end in order
		_ = os.Remove(target)
		_ = os.Remove(filepath.Dir(target))
		if err := os.Remove(beside); err != nil {
			return err
		}
	}
	s.socket = beside
	if len(s.socket) <= maxSocketPath {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	parent := os.TempDir()
	if len(filepath.Join(parent, "roster-etcd-0123456789", socketName)) > maxSocketPath {
		parent = "/tmp" // TMPDIR is no better
	}
	if s.temp, err = os.MkdirTemp(parent, "roster-etcd-"); err != nil {
		return err
	}
	s.socket = filepath.Join(s.temp, socketName)
	return os.Symlink(s.socket, beside)
}

func (s *Server) config(o Options) *embed.Config {
	c := embed.NewConfig()
	c.Name = alone
	c.Dir = o.Dir
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: s.socket}}
	c.AdvertiseClientUrls = c.ListenClientUrls
	c.ListenPeerUrls = nil // Peer listens
	advertised := unreachable
	if o.Peer == nil {
		c.ElectionMs = aloneElection
	} else {
		c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.writes.intercept)}
		c.Name, advertised = o.Peer.Address, o.Peer.URL()
		c.PeerTLSInfo = clienttransport.TLSInfo{CertFile: o.Peer.Pair, KeyFile: o.Peer.Pair, TrustedCAFile: o.Peer.CA, ClientCertAuth: true}
	}
	peer, _ := url.Parse(advertised) // it was checked
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = c.Name + "=" + advertised
	// Of two clusters that begin in the same way, the members must not take each other for their own.
	c.InitialClusterToken = rand.Text()
	if len(o.Join) > 0 {
		c.ClusterState = embed.ClusterStateFlagExisting
		var all []string
		for _, address := range o.Join {
			all = append(all, address+"="+PeerURL(address))
		}
		c.InitialCluster = strings.Join(all, ",")
	}
	c.ForceNewCluster = o.Force
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = slowApply, slowApply
	// The API server compacts; and nobody uses etcd's gateway for JSON.
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger(o.Log, &s.ready, o.Fatal))
	return c
}

// watch notices when the server ends by itself: etcd says so in two ways.
func (s *Server) watch() {
	select {
	case err := <-s.etcd.Err():
		select {
		case <-s.etcd.Server.StoppingNotify(): // the error is that of a listener, which ends for that reason
			err = errEnded
		default:
		}
		s.end(err)
	case <-s.etcd.Server.StopNotify():
		s.end(errEnded)
	case <-s.closing:
	}
}

// errEnded is what etcd means when it stops without an error: its log has a line about the reason.
var errEnded = errors.New("it ended by itself, as it does when this server was removed from its cluster (then delete its data directory)")

// end keeps the first reason.
func (s *Server) end(err error) {
	if err == nil {
		err = errEnded
	}
	select {
	case s.ended <- err:
	default:
	}
}

// awaitVote returns when this member may vote. Until then it answers no reads that the API server could use.
func (s *Server) awaitVote(ctx context.Context, o Options) error {
	for said := false; ; {
		self := s.etcd.Server.Cluster().Member(s.etcd.Server.MemberID())
		if self != nil && !self.IsLearner {
			return nil
		}
		if !said {
			said = true
			o.Log.Info("this server gets the data, and waits until the leading server lets it vote")
		}
		select {
		case <-time.After(learnerPoll):
		case err := <-s.ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Endpoint is where clients on this machine reach the server.
func (s *Server) Endpoint() string { return "unix://" + s.socket }

// Client is one that needs no connection. It ends with the server: do not close it.
func (s *Server) Client() *clientv3.Client { return s.client }

// Leads says whether this member leads at the moment.
func (s *Server) Leads() bool { return s.etcd.Server.Leader() == s.etcd.Server.MemberID() }

// Err delivers the error with which the server ended by itself.
func (s *Server) Err() <-chan error { return s.ended }

// Close returns when the server has ended. One that leads others hands that over first.
func (s *Server) Close() error {
	s.ready.Store(false)
	s.once.Do(func() { close(s.closing) })
	if s.etcd != nil {
		s.etcd.Close()
	}
	var err error
	switch {
	case s.peers != nil:
		err = s.peers.Close()
	case s.listener != nil:
		err = s.listener.Close()
	}
	if s.temp != "" {
		err = errors.Join(err, os.RemoveAll(s.temp))
	}
	return err
}
