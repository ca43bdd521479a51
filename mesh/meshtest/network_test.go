// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package meshtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const latency = 10 * time.Millisecond

// pair connects host a to host b of a new network.
func pair(t *testing.T) (n *Network, a, b net.Conn) {
	t.Helper()
	n = NewNetwork(latency)
	l, err := n.Host("b").Listen(t.Context(), ":1")
	if err != nil {
		t.Fatal(err)
	}
	if a, err = n.Host("a").Dial(t.Context(), "b:1"); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return n, a, b
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly want and returns how long that took.
func expect(t *testing.T, c net.Conn, want string) time.Duration {
	t.Helper()
	start, got := time.Now(), make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
	return time.Since(start)
}

func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		write(t, a, "one ")
		write(t, a, "two")
		if took := expect(t, b, "one two"); took != latency {
			t.Errorf("took %v", took)
		}
		n.SetLatency("a", "b", time.Second)
		write(t, b, "slow")
		if took := expect(t, a, "slow"); took != time.Second {
			t.Errorf("took %v", took)
		}
		if n.Sent() != 11 {
			t.Errorf("%d bytes sent", n.Sent())
		}
		write(t, a, "last words")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		expect(t, b, "last words")
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed connection: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if len(n.halves) != 0 {
			t.Errorf("%d halves are kept", len(n.halves))
		}
	})
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.CutOneWay("a", "b")
		write(t, a, "held")
		write(t, b, "free")
		expect(t, a, "free")
		if err := b.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read over a cut: %v", err)
		}
		if err := b.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host("a").Dial(ctx, "b:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial over a cut: %v", err)
		}
		n.HealAll()
		expect(t, b, "held")
		if _, err := n.Host("a").Dial(t.Context(), "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial of a closed port: %v", err)
		}
	})
}

// TestWindow: a writer waits for its reader, and its deadline ends the wait.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		sent := bytes.Repeat([]byte("x"), window+5)
		if written, err := a.Write(sent); written != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v", written, err)
		}
		if err := a.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = a.Write(sent[window:]) }()
		if got, err := io.ReadAll(io.LimitReader(b, window+5)); err != nil || len(got) != window+5 {
			t.Fatalf("read %d, %v", len(got), err)
		}
	})
}

// TestBandwidthAndJitter: bytes leave one after the other, in order whatever their delays are.
func TestBandwidthAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := pair(t)
		n.SetBandwidth(1000)
		write(t, a, string(make([]byte, 1000)))
		write(t, a, string(make([]byte, 500)))
		if took := expect(t, b, string(make([]byte, 1500))); took != 1500*time.Millisecond+latency {
			t.Errorf("took %v", took)
		}
		n.SetBandwidth(0)
		n.SetJitter(50 * time.Millisecond)
		start := time.Now()
		for i := range 100 {
			write(t, a, string(rune('a'+i%26)))
		}
		for i := range 100 {
			expect(t, b, string(rune('a'+i%26)))
		}
		if took := time.Since(start); took <= latency || took > latency+50*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}
