// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// fakeNet is a network of pipes with one listener. Its connections can be refused, closed, or made to
// lose everything.
type fakeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	refuse  bool
	silent  bool
	current []*fakeConn
}

func (n *fakeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	refuse, silent := n.refuse, n.silent
	n.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	}
	if refuse {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	client, server := net.Pipe()
	mute := make(chan struct{})
	once := &sync.Once{}
	c, s := &fakeConn{client, mute, once}, &fakeConn{server, mute, once}
	select {
	case n.conns <- s:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	n.current = append(n.current, c, s)
	n.mu.Unlock()
	return c, nil
}

// cutConnections ends all connections, as when the process dies.
func (n *fakeNet) cutConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.current {
		_ = c.Close()
	}
	n.current = nil
}

// setRefuse makes the port closed or open.
func (n *fakeNet) setRefuse(v bool) {
	n.mu.Lock()
	n.refuse = v
	n.mu.Unlock()
	if v {
		n.cutConnections()
	}
}

// setSilent makes all packets vanish, or lets new connections through again.
func (n *fakeNet) setSilent(v bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = v
	for _, c := range n.current {
		if v {
			c.once.Do(func() { close(c.mute) })
		}
	}
}

func (n *fakeNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *fakeNet) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *fakeNet) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

type fakeConn struct {
	net.Conn
	mute chan struct{}
	once *sync.Once
}

func (c *fakeConn) Write(p []byte) (int, error) {
	select {
	case <-c.mute:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}
