// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/roster-mesh/roster/mesh/pace"
	"github.com/roster-mesh/roster/mesh/trust"
)

// The service has one method of its own, beside Options.Methods, and no message
// structure: requests and answers are opaque bytes (a digest, signed messages), so
// there is no schema to generate code from. Any change of meaning is a new
// method.
const (
	rpcService = "roster.mesh.v1.Mesh"
	rpcPull    = "Pull" // digest → stream of messages that it lacks

	// maxMessage bounds one replicated message: a payload of 1 MiB, its key,
	// numbers and signature.
	maxMessage = 1<<20 + 64<<10
	// maxPeerCalls is how many pulls of one peer are served at a time, and how many calls of methods.
	maxPeerCalls = 2
	// rpcTimeout ends a call whose peer does not make progress.
	rpcTimeout = 2 * time.Minute
	// rpcIdle closes connections that no call uses.
	rpcIdle = time.Minute
	// rpcConnAge is when a connection is given back that calls do use. One whose peer holds on to it, as by never taking
	// the end of an answer, ends after rpcConnLife.
	rpcConnAge  = 10 * time.Minute
	rpcConnLife = 15 * time.Minute
)

// rawCodec passes byte slices through.
type rawCodec struct{}

func (rawCodec) Name() string { return "roster" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("marshal %T: not bytes", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("unmarshal %T: not bytes", v)
	}
	*b = data.Materialize()
	return nil
}

// peerInfo is what gRPC knows of a connection: TLS was done by the port.
type peerInfo struct {
	credentials.CommonAuthInfo
	caller Caller // of a connection that was accepted
	conn   *rpcConn
}

func (peerInfo) AuthType() string { return "roster" }

// peerCredentials hand connections through that are authenticated already.
type peerCredentials struct{}

func (peerCredentials) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info := newRPCConn(Caller{}, c)
	return conn, info, nil
}

func (peerCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	accepted, ok := c.(*peerConn)
	if !ok {
		return nil, nil, ErrUnpinned
	}
	conn, info := newRPCConn(accepted.peer, c)
	conn.end = time.AfterFunc(rpcConnLife, func() { _ = c.Close() })
	return conn, info, nil
}

// rpcConn ends when its other end does not take what is written.
type rpcConn struct {
	net.Conn
	opened time.Time
	heard  atomic.Int64 // when something came last, as a time since opened
	asked  atomic.Int64 // when a call began that got no answer, since something came; 0 for none
	end    *time.Timer  // when it was accepted
}

func newRPCConn(from Caller, c net.Conn) (*rpcConn, peerInfo) {
	conn := &rpcConn{Conn: c, opened: time.Now()}
	return conn, peerInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, from, conn}
}

// silent is since when nothing came.
func (c *rpcConn) silent() time.Duration { return time.Since(c.opened) - time.Duration(c.heard.Load()) }

// unanswered is since when calls get no answer, of which one began at that time, and nothing else came either.
func (c *rpcConn) unanswered(began time.Time) time.Duration {
	at := began.Sub(c.opened)
	if c.heard.Load() > int64(at) {
		return 0
	}
	c.asked.CompareAndSwap(0, int64(at))
	return time.Since(c.opened) - time.Duration(c.asked.Load())
}

func (c *rpcConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.opened)))
		c.asked.Store(0)
	}
	return n, err
}

func (c *rpcConn) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := c.Conn.Write(b)
	if err != nil {
		_ = c.Close() // gRPC waits for the end of what it reads
	}
	return n, err
}

func (c *rpcConn) Close() error {
	if c.end != nil {
		c.end.Stop()
	}
	return c.Conn.Close()
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}
func (c peerCredentials) Clone() credentials.TransportCredentials { return c }
func (peerCredentials) OverrideServerName(string) error           { return nil }

// server answers peers' calls.
type server struct {
	state   State
	methods map[string]Method
	trusted func(Caller) bool
	metrics *metrics
	behind  func(peer string, theirs summary) // a caller's digest shows that it holds what we lack
	pulls   *pace.Throttle

	mu     sync.Mutex
	calls  map[callKey]int
	limits map[string]map[string]*rate.Limiter // by peer and method
}

// callKey is what calls are counted by: those of methods, which may take long, keep no peer from pulling.
type callKey struct {
	peer string
	pull bool
}

func newServer(state State, methods map[string]Method, t *trust.Table, m *metrics) *server {
	return &server{
		state: state, methods: methods, metrics: m, pulls: pace.New(pullRate, pullBurst, pacedPeers, t.Share),
		trusted: func(from Caller) bool { return from.pinnedIn(t) },
		calls:   map[callKey]int{}, limits: map[string]map[string]*rate.Limiter{},
	}
}

// grpc wraps the server; the caller stops it.
func (s *server) grpc() *grpc.Server {
	g := grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxDigest),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(2*maxPeerCalls),
		grpc.MaxHeaderListSize(8<<10),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 2 * rpcIdle, MaxConnectionAge: rpcConnAge, MaxConnectionAgeGrace: rpcTimeout,
			Time: math.MaxInt64, // closeIfSilent says why not
		}),
	)
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: rpcService,
		HandlerType: (*any)(nil),
		Methods:     s.descriptors(),
		Streams:     []grpc.StreamDesc{{StreamName: rpcPull, Handler: handlePull, ServerStreams: true}},
	}, s)
	return g
}

// admitCall admits a call of the peer and returns what ends it. A call that has
// not ended after rpcTimeout loses its connection: a peer that takes bytes one
// by one must not keep anything here for longer.
func (s *server) admitCall(ctx context.Context, pull bool) (from Caller, end func(), err error) {
	var info peerInfo
	if p, ok := peer.FromContext(ctx); ok {
		info, _ = p.AuthInfo.(peerInfo)
	}
	from = info.caller
	if from.ClusterID == "" {
		return from, nil, status.Error(codes.Unauthenticated, "not a member")
	}
	if !s.trusted(from) { // the pin was removed meanwhile
		_ = info.conn.Close()
		return from, nil, status.Error(codes.Unauthenticated, "not a member any more")
	}
	key := callKey{from.ClusterID, pull}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[key] >= maxPeerCalls {
		s.metrics.drop(dropPeerLimit)
		return from, nil, status.Error(codes.ResourceExhausted, "too many calls at a time")
	}
	s.calls[key]++
	watchdog := time.AfterFunc(rpcTimeout, func() { _ = info.conn.Close() })
	return from, func() {
		watchdog.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls[key]--; s.calls[key] == 0 {
			delete(s.calls, key)
		}
	}, nil
}

func handlePull(srv any, stream grpc.ServerStream) error {
	s := srv.(*server)
	from, end, err := s.admitCall(stream.Context(), true)
	if err != nil {
		return err
	}
	defer end()
	id := from.ClusterID
	var digest []byte
	if err := stream.RecvMsg(&digest); err != nil {
		return err
	}
	s.pulls.Wait(id, 1)
	// Collected first, so that a slow reader cannot hold the state's locks;
	// the messages are the state's own bytes, not copies.
	var msgs [][]byte
	err = s.state.Delta(digest, func(msg []byte) error {
		msgs = append(msgs, msg)
		return nil
	})
	if err != nil {
		s.metrics.drop(dropMalformed)
		return status.Error(codes.InvalidArgument, "digest does not decode")
	}
	sent := 0
	for _, msg := range msgs {
		if err := stream.SendMsg(msg); err != nil {
			return err
		}
		if sent += len(msg); sent >= pullBytes {
			s.pulls.Wait(id, sent/pullBytes)
			sent %= pullBytes
		}
	}
	if lacks, err := s.state.Lacks(digest); err == nil && lacks {
		s.behind(id, summarize(digest))
	}
	return nil
}
