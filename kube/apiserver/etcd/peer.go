// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	clienttransport "go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
)

// PathPrefix is that of Peer.Handler, beside what etcd's members ask each other.
const PathPrefix = "/roster-apiserver/"

// Peer is how the other servers of the same cluster reach this one: at one address, with certificates on both sides.
type Peer struct {
	Address string // HOST:PORT; a HOST that is a name is listened for on all addresses of this machine
	Pair    string // file with the certificate and the key of this server, which is read again for each connection
	CA      string // file with the certificate that signed those of all servers

	// Handler makes what answers under PathPrefix, with a client of this server. It may be nil.
	Handler func(*clientv3.Client) http.Handler
}

// URL is the peer's address in etcd's list of members.
func (p *Peer) URL() string { return PeerURL(p.Address) }

// PeerURL is a HOST:PORT in etcd's list of members.
func PeerURL(address string) string { return "https://" + address }

// CheckAddress returns an error unless others can be told to connect to a HOST:PORT.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no HOST:PORT", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has no port number", address)
	}
	ip := net.ParseIP(host)
	if ip == nil && !hostName.MatchString(host) || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%q names no host that others can connect to", address)
	}
	return nil
}

// hostName is what goes into a URL, and into etcd's list of members, as it is.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

// ClientTLS is what a server that has the certificates in these files connects to another one with.
func ClientTLS(pair, ca string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		return nil, err
	}
	roots, err := pool(ca)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS13}, err
}

func pool(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	certs := x509.NewCertPool()
	if !certs.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return certs, nil
}

// listen opens the peer's port. etcd itself would not listen for a host's name.
func (p *Peer) listen() (net.Listener, error) {
	roots, err := pool(p.CA)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		host = ""
	}
	// A member that vanishes must not hold up a write for longer than etcd expects.
	timeouts := clienttransport.WithTimeout(rafthttp.ConnReadTimeout, rafthttp.ConnWriteTimeout)
	plain, err := clienttransport.NewListenerWithOpts(net.JoinHostPort(host, port), "http", timeouts)
	if err != nil {
		return nil, &ListenError{Address: p.Address, Err: err}
	}
	return tls.NewListener(plain, &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(p.Pair, p.Pair)
			return &cert, err
		},
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  roots,
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"}, // members keep streams open, which etcd writes to directly
	}), nil
}

// ListenError is returned when the port for peers cannot be opened.
type ListenError struct {
	Address string
	Err     error
}

// Error implements error.
func (e *ListenError) Error() string { return fmt.Sprintf("listen on %s: %v", e.Address, e.Err) }

// Unwrap returns what the system said.
func (e *ListenError) Unwrap() error { return e.Err }

// servePeers answers the other members until the server is closed.
func (s *Server) servePeers(o Options) {
	mux := http.NewServeMux()
	mux.Handle("/", etcdhttp.NewPeerHandler(s.etcd.GetLogger(), s.etcd.Server))
	if o.Peer.Handler != nil {
		mux.Handle(PathPrefix, o.Peer.Handler(s.client))
	}
	s.peers = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // strangers
	}
	go func() {
		if err := s.peers.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.end(err)
		}
	}()
}

// updatePeer tells etcd at which address others reach this member, if that has changed: while it was alone, it had none.
func (s *Server) updatePeer(ctx context.Context, p *Peer) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	self := s.etcd.Server.Cluster().Member(s.etcd.Server.MemberID())
	if self == nil || slices.Equal(self.PeerURLs, []string{p.URL()}) {
		return nil
	}
	if _, err := s.client.MemberUpdate(ctx, uint64(self.ID), []string{p.URL()}); err != nil {
		return fmt.Errorf("tell the other servers that this one is now reached at %s: %w", p.Address, err)
	}
	return nil
}

// Learner is a member without a vote.
type Learner struct {
	ID   uint64
	Peer string // HOST:PORT
}

// Learners returns those members without a vote that have started once.
func (s *Server) Learners() []Learner {
	var learners []Learner
	for _, member := range s.etcd.Server.Cluster().Members() {
		if member.IsLearner && member.IsStarted() && len(member.PeerURLs) > 0 {
			learners = append(learners, Learner{ID: uint64(member.ID), Peer: strings.TrimPrefix(member.PeerURLs[0], PeerURL(""))})
		}
	}
	return learners
}

// Promote gives a learner a vote, or returns an error while it has not caught up.
func (s *Server) Promote(ctx context.Context, id uint64) error {
	_, err := s.client.MemberPromote(ctx, id)
	return err
}
