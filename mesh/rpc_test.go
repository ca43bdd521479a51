// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/roster-mesh/roster/mesh/trust"
)

func TestPull(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	a, b := g.add("a"), g.add("b")
	g.swap(a, b)
	await(t, deadline, "they meet", formed(a, b))
	await(t, deadline, "states converge", equal(a, b))
	for range 500 {
		b.state.publish(make([]byte, 1000))
	}
	if err := a.Pull(t.Context(), "b"); err != nil || !equal(a, b)() {
		t.Fatalf("pull: %v", err)
	}
	if err := a.Pull(t.Context(), "nobody"); !errors.Is(err, ErrUnpinned) {
		t.Errorf("pull from a stranger: %v", err)
	}
	each := func([]byte) verdict { t.Error("got a message for a bad digest"); return known }
	if err := a.clients.pull(t.Context(), "b", []byte("{"), each); status.Code(err) != codes.InvalidArgument {
		t.Errorf("bad digest: %v", err)
	}
	if err := a.clients.pull(t.Context(), "b", make([]byte, maxDigest+1), each); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("large digest: %v", err)
	}
	// An entry that no honest member could hold is not let through.
	b.state.publish(make([]byte, maxMessage))
	if err := a.Pull(t.Context(), "b"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("large message: %v", err)
	}
}

// TestPullsArePaced: each pull looks at all that is held, so a peer that pulls again and again waits.
func TestPullsArePaced(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		start := time.Now()
		for range pullBurst + 10*pullRate {
			if err := a.clients.pull(t.Context(), "b", a.state.Digest(), func([]byte) verdict { return known }); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 9*time.Second || took > 15*time.Second {
			t.Errorf("ten seconds' worth took %v", took)
		}
	})
}

// TestLargeAnswersArePaced: a peer that says again and again that it holds nothing waits, too.
func TestLargeAnswersArePaced(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		const each = 10 // times pullBytes
		for range 4 * each {
			b.state.publish(make([]byte, pullBytes*3/16)) // a fourth, in the base64 of the fake
		}
		await(t, time.Minute, "a holds it", equal(a, b))
		time.Sleep(time.Minute)
		start := time.Now()
		for range 10 {
			got := 0
			err := a.clients.pull(t.Context(), "b", newFakeState(a.state.identity, a.trust).Digest(), func(msg []byte) verdict { got += len(msg); return known })
			if err != nil || got < each*pullBytes {
				t.Fatalf("%d bytes, %v", got, err)
			}
		}
		if took := time.Since(start); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("twelve seconds' worth took %v", took)
		}
	})
}

// TestSilentConnections: a call that gets no answer ends its connection, and the next one dials.
func TestSilentConnections(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *clients) error{
		"pull": func(ctx context.Context, c *clients) error {
			return c.pull(ctx, "b", []byte("{}"), func([]byte) verdict { return known })
		},
		"call": func(ctx context.Context, c *clients) error {
			_, err := c.call(ctx, "b", "Greet", Method{MaxAnswer: 1, Timeout: methodTimeout}, []byte("{}"))
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, time.Millisecond, func(t *testing.T, g *group) {
				a, b := g.add("a"), g.add("b")
				g.swap(a, b)
				await(t, time.Minute, "they meet", formed(a, b))
				c := newClients(a.clients.dial) // a connection for this alone
				defer c.close()
				if err := calls["pull"](t.Context(), c); status.Code(err) != codes.InvalidArgument {
					t.Fatalf("while they talk: %v", err)
				}
				g.network.Cut("a", "b")
				if err := call(t.Context(), c); !errors.Is(err, errStalled) && status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("on a silent connection: %v", err)
				}
				time.Sleep(time.Second)
				if err := call(t.Context(), c); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "dial") {
					t.Errorf("once more: %v", err)
				}
			})
		})
	}
}

// TestSlowAnswersKeepTheConnection: a call that takes too long takes no other call with it.
func TestSlowAnswersKeepTheConnection(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b", func(o *Options) {
			o.Methods["Greet"] = Method{Serve: func(ctx context.Context, _ Caller, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		})
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		await(t, time.Minute, "and are equal", equal(a, b)) // there are no pulls beside it
		dials := 0
		c := newClients(func(ctx context.Context, id, protocol string) (net.Conn, error) {
			dials++
			return a.clients.dial(ctx, id, protocol)
		})
		defer c.close()
		for range 3 {
			if _, err := c.call(t.Context(), "b", "Greet", Method{Timeout: 5 * time.Second}, nil); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("a call that takes for ever: %v", err)
			}
		}
		if dials != 1 {
			t.Errorf("dialled %d times", dials)
		}
	})
}

// TestConnectionsAreGivenBack: no peer keeps one for longer than rpcConnLife, whatever it does.
func TestConnectionsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		accepted, err := newConnections(maxConns, nil).hold(ours, Caller{ClusterID: "a"}, protocolRPC, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := (peerCredentials{}).ServerHandshake(accepted); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != rpcConnLife {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// deafConn hears nothing from some byte on, and takes nothing off the line.
type deafConn struct {
	net.Conn
	left int
	once sync.Once
	done chan struct{}
}

func (c *deafConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		<-c.done
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

// TestDeafPeerLosesItsConnection: what a peer does not take off the line is not kept for it.
func TestDeafPeerLosesItsConnection(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		for range 8 {
			b.state.publish(make([]byte, 500<<10))
		}
		await(t, time.Minute, "a holds it", equal(a, b))
		time.Sleep(5 * time.Minute) // what was pulled over is closed
		conn, err := a.transport.dialer.dial(t.Context(), "b", protocolRPC)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		deaf := &deafConn{Conn: conn, left: 64 << 10, done: make(chan struct{})}
		held := func() int {
			return len(slices.DeleteFunc(b.port.conns.list(), func(c *peerConn) bool { return c.peer.ClusterID != "a" || c.protocol != protocolRPC }))
		}
		before := held()
		const wide = 64 << 20 // so that only the line holds b back
		channel, err := grpc.NewClient("passthrough:///b", grpc.WithTransportCredentials(peerCredentials{}),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return deaf, nil }),
			grpc.WithInitialWindowSize(wide), grpc.WithInitialConnWindowSize(wide), grpc.WithDisableServiceConfig(),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
		if err != nil {
			t.Fatal(err)
		}
		defer channel.Close()
		stream, err := channel.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+rpcService+"/"+rpcPull)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stream.SendMsg(newFakeState(a.state.identity, a.trust).Digest()), stream.CloseSend()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTimeout / 2)
		if n := held(); n != before {
			t.Fatalf("%d connections of a, and %d before", n, before)
		}
		time.Sleep(writeTimeout + time.Second) // TLS says goodbye for five seconds
		if n := held(); n != before-1 {
			t.Errorf("%d connections of a, and %d before: one takes nothing", n, before)
		}
	})
}

// peerContext is the context of a call that a member makes.
func peerContext(from Caller) context.Context {
	c, _ := net.Pipe()
	_, info := newRPCConn(from, c)
	return peer.NewContext(context.Background(), &peer.Peer{AuthInfo: info})
}

// TestCallsAreBounded: a peer that opens pulls and says nothing has two.
func TestCallsAreBounded(t *testing.T) {
	s := newServer(nil, nil, trust.New(trust.Pin{ClusterID: "self", PublicKey: testKeys(1)[0]}, trust.Options{}), mustMetrics(t))
	s.trusted = func(Caller) bool { return true }
	ctx := peerContext(Caller{ClusterID: "a"})
	var ends []func()
	for range maxPeerCalls {
		_, end, err := s.admitCall(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, _, err := s.admitCall(ctx, false); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one call too many: %v", err)
	}
	if _, end, err := s.admitCall(peerContext(Caller{ClusterID: "b"}), false); err != nil {
		t.Errorf("another peer's call: %v", err)
	} else {
		end()
	}
	for _, end := range ends {
		end()
	}
	if len(s.calls) != 0 {
		t.Errorf("calls left over: %v", s.calls)
	}
	if _, _, err := s.admitCall(context.Background(), false); status.Code(err) != codes.Unauthenticated {
		t.Errorf("call of nobody: %v", err)
	}
}

// TestPullerCoalesces: many requests while a pull runs lead to one more.
func TestPullerCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller()
		started, proceed := make(chan string), make(chan error)
		p.pull = func(context.Context, string) (pullResult, error) {
			started <- ""
			return pullResult{fresh: 1}, <-proceed
		}
		p.alive = func() []string { return []string{"a"} }
		p.result = func(string) {}
		p.ours = func() summary { return summary{} }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.run(ctx) }()
		p.request("a")
		<-started
		for range 100 {
			p.request("a")
		}
		proceed <- nil
		<-started
		proceed <- nil
		select {
		case <-started:
			t.Error("a third pull")
		case <-time.After(50 * time.Millisecond):
		}
		p.request("a")
		<-started
		proceed <- errors.New("failed")
		<-started // by itself
		proceed <- nil
		cancel()
		<-done
	})
}

// TestImpatientCallsKeepTheConnection: a call that is given less than the round trip takes no other call with it, but those
// that get no answer for long end the connection.
func TestImpatientCallsKeepTheConnection(t *testing.T) {
	bubble(t, 100*time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b", func(o *Options) {
			o.Methods["Greet"] = Method{Serve: func(context.Context, Caller, []byte) ([]byte, error) {
				time.Sleep(20 * time.Second)
				return nil, nil
			}}
		})
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		await(t, time.Minute, "and are equal", equal(a, b)) // there are no pulls beside it
		dials := 0
		c := newClients(func(ctx context.Context, id, protocol string) (net.Conn, error) {
			dials++
			return a.clients.dial(ctx, id, protocol)
		})
		defer c.close()
		impatient := func() {
			if _, err := c.call(t.Context(), "b", "None", Method{Timeout: 50 * time.Millisecond}, nil); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("a call that is given no time: %v", err)
			}
		}
		slow := make(chan error, 1)
		go func() {
			_, err := c.call(t.Context(), "b", "Greet", Method{Timeout: methodTimeout}, nil)
			slow <- err
		}()
		time.Sleep(15 * time.Second)
		impatient()
		if err := <-slow; err != nil {
			t.Errorf("the other call: %v", err)
		}
		g.network.Cut("a", "b")
		for range 11 {
			time.Sleep(time.Second)
			impatient()
		}
		g.network.HealAll()
		time.Sleep(time.Second)
		before := dials
		_, _ = c.call(t.Context(), "b", "None", Method{Timeout: methodTimeout}, nil)
		if before != 1 || dials != 2 {
			t.Errorf("dialled %d times, and then %d", before, dials-before)
		}
	})
}
