// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Stream connects the agents of this cluster, and nobody else.
type Stream interface {
	net.Listener
	Dial(address string, timeout time.Duration) (net.Conn, error)
}

// What a connection is for: its first byte. A message of raft is for one server of one group: an agent that lost its
// disk has a new server ID, and must not vote in the name of the old one.
const (
	forRaft byte = iota + 1
	forJoin
)

const (
	// askTimeout bounds a question to another agent.
	askTimeout = 5 * time.Second
	// maxRequest bounds a question and its answer, and what a connection is for.
	maxRequest = 4 << 10
)

// request asks to be taken into the group, in place of whoever had that address.
type request struct {
	Group    string `json:"group"`
	ServerID string `json:"serverID"`
	Address  string `json:"address"`
	// CaughtUp: it has all that the group has, and may be given a vote.
	CaughtUp bool `json:"caughtUp,omitempty"`
}

// answer says what became of it.
type answer struct {
	// Taken: this agent leads the group, and the one that asked is in it.
	Taken bool `json:"taken,omitempty"`
	// Blank: this agent holds nothing of any group.
	Blank    bool   `json:"blank,omitempty"`
	ServerID string `json:"serverID"`
}

// address is what raft takes for a server's address: where its agent is dialled, and whom it is for.
func address(serverID, at string) raft.ServerAddress { return raft.ServerAddress(serverID + "@" + at) }

// dialled is the part of an address that leads to the agent.
func dialled(a raft.ServerAddress) string {
	_, at, _ := strings.Cut(string(a), "@")
	return at
}

// mux shares a stream between raft and requests. It is raft's StreamLayer.
type mux struct {
	stream          Stream
	group, serverID string
	local           string
	join            func(request) answer
	conns           chan net.Conn
	closed          chan struct{}
	once            sync.Once
	wg              sync.WaitGroup

	mu     sync.Mutex
	served map[*servedConn]struct{} // what raft reads from, which raft does not close; nil after the end
}

// servedConn is a connection that another server of raft opened.
type servedConn struct {
	net.Conn
	mux *mux
}

func (c *servedConn) Close() error {
	c.mux.mu.Lock()
	delete(c.mux.served, c)
	c.mux.mu.Unlock()
	return c.Conn.Close()
}

func newMux(g *Group, o owner, join func(request) answer) *mux {
	return &mux{
		stream: g.Stream, group: o.Group, serverID: o.ServerID, local: g.Address, join: join,
		conns: make(chan net.Conn), closed: make(chan struct{}), served: map[*servedConn]struct{}{},
	}
}

func (m *mux) serve() {
	for {
		conn, err := m.stream.Accept()
		if err != nil {
			return
		}
		m.wg.Go(func() { m.dispatch(conn) })
	}
}

// dispatch finds out what a connection is for.
func (m *mux) dispatch(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(askTimeout))
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		_ = conn.Close()
		return
	}
	switch kind[0] {
	case forRaft:
		want := m.preamble(m.serverID)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
			break
		}
		_ = conn.SetDeadline(time.Time{})
		select {
		case m.conns <- conn:
			return
		case <-m.closed:
		}
	case forJoin:
		var r request
		if json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&r) == nil && validRequest(r) {
			_ = conn.SetDeadline(time.Now().Add(askTimeout))
			_ = json.NewEncoder(conn).Encode(m.join(r))
		}
	}
	_ = conn.Close()
}

// validRequest accepts what an agent can have sent.
func validRequest(r request) bool {
	_, _, err := net.SplitHostPort(r.Address)
	return err == nil && r.ServerID != "" && !strings.Contains(r.ServerID, "@") && len(r.Address)+len(r.ServerID) < 512
}

// preamble is what a connection of raft says first.
func (m *mux) preamble(serverID string) string { return m.group + "/" + serverID + "\n" }

// Accept is raft's.
func (m *mux) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.served == nil {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		c := &servedConn{conn, m}
		m.served[c] = struct{}{}
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Addr is this server's address, as raft knows it.
func (m *mux) Addr() net.Addr { return muxAddr(address(m.serverID, m.local)) }

type muxAddr string

func (muxAddr) Network() string  { return "roster-raft" }
func (a muxAddr) String() string { return string(a) }

// Dial is raft's.
func (m *mux) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, at, ok := strings.Cut(string(to), "@")
	if !ok {
		return nil, fmt.Errorf("%q is not the address of an agent", to)
	}
	return m.dial(at, string(forRaft)+m.preamble(id), timeout)
}

func (m *mux) dial(at, first string, timeout time.Duration) (net.Conn, error) {
	conn, err := m.stream.Dial(at, timeout)
	if err != nil {
		return nil, err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(conn, first); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, conn.SetWriteDeadline(time.Time{})
}

// request asks to be taken in, or for a vote.
func (m *mux) request(caughtUp bool) request {
	return request{Group: m.group, ServerID: m.serverID, Address: m.local, CaughtUp: caughtUp}
}

// ask asks another agent.
func (m *mux) ask(at string, r request) (a answer, err error) {
	conn, err := m.dial(at, string(forJoin), askTimeout)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * askTimeout))
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return answer{}, err
	}
	return a, json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&a)
}

// Close is raft's: the stream itself is closed by end.
func (m *mux) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *mux) end() error {
	if m == nil {
		return nil
	}
	_ = m.Close()
	err := m.stream.Close()
	m.mu.Lock()
	served := m.served
	m.served = nil
	m.mu.Unlock()
	for c := range served {
		_ = c.Conn.Close()
	}
	m.wg.Wait()
	return err
}
