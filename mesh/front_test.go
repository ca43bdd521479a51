// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/mesh/lobby"
)

// fronts are agents of one cluster; the place is at the one with the index at, or nowhere when that is negative.
type fronts struct {
	id    Identity
	list  []*Front
	addrs []string
	at    atomic.Int64
}

func newFronts(t *testing.T, n int) *fronts {
	t.Helper()
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	all := &fronts{id: Identity{ClusterID: "one", PrivateKey: key}}
	all.at.Store(-1)
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		listener, err := TCP{}.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFront(all.id, listener, func() (string, bool) {
			at := int(all.at.Load())
			if at < 0 {
				return "", false
			}
			return all.addrs[at], at == i
		})
		if err != nil {
			t.Fatal(err)
		}
		all.list, all.addrs = append(all.list, f), append(all.addrs, listener.Addr().String())
	}
	for _, f := range all.list {
		group.Go(func() error { return f.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return all
}

// open takes the place, and answers each connection there with what it has read.
func (f *fronts) open(t *testing.T, i int) net.Listener {
	t.Helper()
	place := f.list[i].Open()
	f.at.Store(int64(i))
	t.Cleanup(func() { _ = place.Close() })
	go func() {
		for {
			conn, err := place.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return place
}

func dialRaw(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := TCP{}.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(deadline))
	return conn
}

// hello is what a TLS client of a protocol sends first.
func hello(t *testing.T, protocol string) []byte {
	t.Helper()
	var sent bytes.Buffer
	conn := tls.Client(&deaf{to: &sent}, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS13})
	if err := conn.HandshakeContext(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return sent.Bytes()
}

// deaf is a connection that hears nothing.
type deaf struct {
	net.Conn
	to *bytes.Buffer
}

func (d *deaf) Write(b []byte) (int, error) { return d.to.Write(b) }
func (d *deaf) Read([]byte) (int, error)    { return 0, io.EOF }
func (d *deaf) Close() error                { return nil }

// echoes says whether what is sent comes back whole.
func echoes(conn net.Conn, what []byte) error {
	if _, err := conn.Write(what); err != nil {
		return err
	}
	got := make([]byte, len(what))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !bytes.Equal(got, what) {
		return errors.New("something else came back")
	}
	return nil
}

// TestFrontPassesOn: whichever agent is dialled, the bytes come unread to the one with the place, from the first on;
// the place moves; and what comes while it is being taken waits.
func TestFrontPassesOn(t *testing.T) {
	all := newFronts(t, 3)
	opens := append(hello(t, protocolPacket), "and what follows"...)
	for _, at := range []int{1, 2, 1} {
		all.at.Store(int64(at))
		early := dialRaw(t, all.addrs[0])
		came := make(chan error, 1)
		go func() { came <- echoes(early, opens) }()
		place := all.open(t, at)
		if err := <-came; err != nil {
			t.Errorf("at %d: what came early: %v", at, err)
		}
		for i, address := range all.addrs {
			conn := dialRaw(t, address)
			for _, what := range [][]byte{opens, bytes.Repeat([]byte("x"), 100_000)} {
				if err := echoes(conn, what); err != nil {
					t.Errorf("from %d to %d: %v", i, at, err)
				}
			}
		}
		if err := place.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFrontLoop: two agents that take each other for the one with the place do not pass a connection on for ever.
func TestFrontLoop(t *testing.T) {
	all := newFronts(t, 2)
	for i, f := range all.list {
		f.active = func() (string, bool) { return all.addrs[1-i], false }
	}
	conn := dialRaw(t, all.addrs[0])
	if err := echoes(conn, hello(t, protocolPacket)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection did not end: %v", err)
	}
}

// TestSiblings: agents of one cluster reach each other; nobody with another key does, pinned or not.
func TestSiblings(t *testing.T) {
	all, others := newFronts(t, 2), newFronts(t, 1)
	go func() {
		conn, err := all.list[1].Siblings().Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	conn, err := all.list[0].Siblings().Dial(all.addrs[1], deadline)
	if err != nil {
		t.Fatal(err)
	}
	if err := echoes(conn, []byte("hello")); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := others.list[0].Siblings().Dial(all.addrs[1], deadline); err == nil {
		_ = conn.Close()
		t.Error("another cluster's agent reached a server of this one")
	}
	stranger := others.list[0].client.Clone()
	stranger.VerifyConnection = nil // it does not care whom it reaches
	raw := dialRaw(t, all.addrs[1])
	intruder := tls.Client(raw, stranger)
	if _, err := intruder.Write([]byte{1}); err == nil {
		if n, err := intruder.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("another cluster's key is served")
		}
	}
}

// TestFrontJunk: what is no TLS handshake ends, and so does one that does not come to an end.
func TestFrontJunk(t *testing.T) {
	all := newFronts(t, 1)
	all.open(t, 0)
	long := hello(t, protocolPacket)
	for _, junk := range []string{
		"GET / HTTP/1.1\r\n\r\n", "\x01\x01\x01\x01\x01\x01", "\x01GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x00", 1<<20),
		"\x16\x03\x01\xff\xff" + strings.Repeat("\x00", 1<<17), "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("\x00", 1<<17), string(long[:len(long)/2]),
	} {
		conn := dialRaw(t, all.addrs[0])
		_, _ = io.WriteString(conn, junk)
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.12q is answered, or kept: %v", junk, err)
		}
	}
}

// TestFrontBoundsWhoWaits: while nobody accepts at the place, those who wait for it are no more than strangers may be.
func TestFrontBoundsWhoWaits(t *testing.T) {
	all := newFronts(t, 1)
	all.at.Store(0)
	place := all.list[0].Open()
	t.Cleanup(func() { _ = place.Close() })
	opens := hello(t, protocolPacket)
	first := dialRaw(t, all.addrs[0])
	if _, err := first.Write(opens); err != nil {
		t.Fatal(err)
	}
	await(t, deadline, "the first one waits", func() bool {
		return all.list[0].strangers.Len() == 1
	})
	for range lobby.Size + 8 {
		if _, err := dialRaw(t, all.addrs[0]).Write(opens); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = first.Read(make([]byte, 1))
	}()
	await(t, deadline, "the oldest one gives way", func() bool {
		if n := all.list[0].strangers.Len(); n > lobby.Size {
			t.Fatalf("%d wait", n)
		}
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}
