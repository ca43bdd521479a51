// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// maxDelta bounds what one pull may bring: the rest comes with the next.
	maxDelta = 128 << 20
	// maxUseless bounds the bytes, and maxRejected the refused messages, that a
	// pull brings after the last fresh one. An honest delta has some: what came
	// from others meanwhile, or an origin of which we pinned another key.
	maxUseless  = 32 << 20
	maxRejected = 1000
	// pullPatience is how long the next message of a pull may take.
	pullPatience = 10 * time.Second
)

// errDelta: a member sent more in one pull than it may.
var errDelta = errors.New("delta exceeds its bound")

// errUseless: a member sent much in one pull, and nothing that we can use.
var errUseless = errors.New("delta brings nothing new")

// errStalled: a member did not send on.
var errStalled = errors.New("delta does not go on")

// verdict is what became of a message.
type verdict uint8

const (
	known verdict = iota
	fresh
	rejected
)

// clients keeps one gRPC channel per member, and what [Mesh.Dial] opened. A channel connects when a call
// needs it and disconnects when idle.
type clients struct {
	dial   func(ctx context.Context, id, protocol string) (net.Conn, error)
	opened *connections

	mu       sync.Mutex
	closed   bool
	channels map[string]*grpc.ClientConn
}

func newClients(dial func(ctx context.Context, id, protocol string) (net.Conn, error)) *clients {
	return &clients{dial: dial, opened: newConnections(math.MaxInt, nil), channels: map[string]*grpc.ClientConn{}}
}

func (c *clients) channel(id string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if channel := c.channels[id]; channel != nil {
		return channel, nil
	}
	channel, err := grpc.NewClient("passthrough:///"+id,
		grpc.WithTransportCredentials(peerCredentials{}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return c.dial(ctx, id, protocolRPC)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(rpcIdle),
		grpc.WithMaxHeaderListSize(8<<10),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: pace.MinBackoff, Multiplier: 2, Jitter: 0.3, MaxDelay: maxRedial},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, err
	}
	c.channels[id] = channel
	return channel, nil
}

// pull asks a member for what the digest lacks and hands each message on.
func (c *clients) pull(ctx context.Context, id string, digest []byte, each func(msg []byte) verdict) error {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	channel, err := c.channel(id)
	if err != nil {
		return err
	}
	var other peer.Peer
	stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+rpcService+"/"+rpcPull, grpc.Peer(&other))
	if err == nil {
		err = stream.SendMsg(digest)
	}
	if err == nil || errors.Is(err, io.EOF) { // receiving says why it has ended
		_ = stream.CloseSend() // which always returns nil
		err = receive(stream, each, abort)
	}
	if errors.Is(err, errStalled) {
		closeIfSilent(other, (*rpcConn).silent)
	}
	if err != nil {
		return fmt.Errorf("pull from %s: %w", id, err)
	}
	return nil
}

// receive takes a delta as long as it brings something: others wait for their turn to be pulled.
func receive(stream grpc.ClientStream, each func(msg []byte) verdict, abort context.CancelCauseFunc) error {
	received, useless, refused := 0, 0, 0
	for received <= maxDelta {
		if useless > maxUseless || refused >= maxRejected {
			return errUseless
		}
		var msg []byte
		patience := time.AfterFunc(pullPatience, func() { abort(errStalled) })
		err := stream.RecvMsg(&msg)
		stalled := !patience.Stop()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && stalled:
			return errStalled
		case err != nil:
			return err
		}
		size := len(msg) + frameHeader
		received += size
		useless += size
		switch each(msg) {
		case fresh:
			useless, refused = 0, 0
		case rejected:
			refused++
		case known:
		}
	}
	return errDelta
}

// call has one request and one answer.
func (c *clients) call(ctx context.Context, id, method string, o Method, request []byte) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	channel, err := c.channel(id)
	if err != nil {
		return nil, err
	}
	var other peer.Peer
	began := time.Now()
	err = channel.Invoke(ctx, "/"+rpcService+"/"+method, request, &answer, grpc.MaxCallRecvMsgSize(o.MaxAnswer), grpc.Peer(&other))
	if status.Code(err) == codes.DeadlineExceeded {
		closeIfSilent(other, func(c *rpcConn) time.Duration { return c.unanswered(began) })
	}
	if err != nil {
		return nil, fmt.Errorf("call %s of %s: %w", method, id, err)
	}
	return answer, nil
}

// closeIfSilent closes the connection of a call that got no answer in time, if it has been silent for pullPatience, which is
// longer than a call may be given: its other end may be gone, and the next call is to find that out by dialling. One that is merely slow acknowledges the
// request, as a rule: gRPC pings who sends data to measure the round trip. Its keepalive would do the same, but goes by
// the wall clock, and takes a step of it for silence.
func closeIfSilent(other peer.Peer, silent func(*rpcConn) time.Duration) {
	if info, ok := other.AuthInfo.(peerInfo); ok && silent(info.conn) >= pullPatience {
		_ = info.conn.Close()
	}
}

// retryNow ends the wait between attempts to connect to a member.
func (c *clients) retryNow(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if channel := c.channels[id]; channel != nil {
		channel.ResetConnectBackoff()
	}
}

func (c *clients) close() {
	c.mu.Lock()
	c.closed = true
	channels := c.channels
	c.channels = nil
	c.mu.Unlock()
	for _, channel := range channels {
		_ = channel.Close()
	}
	c.opened.close()
}

// chanListener is a listener whose connections come from elsewhere: gRPC accepts from one that the port feeds.
type chanListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newChanListener(addr net.Addr) *chanListener {
	return &chanListener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// deliver hands a connection over, or closes it when the listener is closed.
func (f *chanListener) deliver(conn net.Conn) {
	select {
	case f.conns <- conn:
	case <-f.done:
		_ = conn.Close()
	}
}

func (f *chanListener) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *chanListener) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

func (f *chanListener) Addr() net.Addr { return f.addr }
