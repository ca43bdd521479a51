// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

const (
	// packetSize is what memberlist puts into a packet. There is no datagram
	// behind it, so it only limits how long a packet delays the next one.
	packetSize = 16 << 10
	// leaveTimeout bounds the goodbye: three rounds of gossip, which is what it
	// takes in a group of hundreds. In a group of two the first one says it all.
	leaveTimeout = 1500 * time.Millisecond
)

// errStopped: memberlist has ended.
var errStopped = errors.New("membership has stopped")

// errNotKnown: a member ended the handshake because of our key.
var errNotKnown = errors.New("the member does not know this cluster's key yet: make the swap in the other direction too")

// membershipConfig is memberlist's WAN profile, with what differs because the
// transport is made of connections: streams fail sooner, full exchanges come twice
// as often; there is no use in a second encryption or in compression. The other
// times are the profile's. Gossip goes out every 500 ms: it carries membership
// alone, a small group meets newcomers by joining them, and each tick wakes an agent
// at rest. A member is suspected after 5 s without a direct, indirect or stream
// answer, and has 30 s (more in a larger group with few confirmations) to refute.
func membershipConfig(t *transport, d *delegate, logger *slog.Logger) *memberlist.Config {
	c := memberlist.DefaultWANConfig()
	c.Name = t.self
	c.Transport = t
	c.ProtocolVersion = memberProtocol
	c.BindPort = memberPort // stands in where a peer sends no port
	c.RequireNodeNames = true
	c.EnableCompression = false
	c.UDPBufferSize = packetSize
	c.PushPullInterval = 30 * time.Second
	c.TCPTimeout = dialTimeout
	c.Delegate, c.Alive, c.Events = d, d, d
	c.Logger = log.New(debugWriter{logger}, "", 0)
	return c
}

// debugWriter passes memberlist's lines on. They are debugging to us: what a
// user needs to know is logged when a member changes state.
type debugWriter struct{ logger *slog.Logger }

func (w debugWriter) Write(line []byte) (int, error) {
	if w.logger.Enabled(context.Background(), slog.LevelDebug) { //nolint:forbidigo // io.Writer has no context
		w.logger.Debug("memberlist", "line", strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

// join exchanges the membership with a member that is not alive yet. It blocks
// for at most two stream timeouts.
func join(list *memberlist.Memberlist, id string) error {
	// By its constant address: memberlist would look a host name up itself.
	addr := net.JoinHostPort(memberAddr(id).String(), fmt.Sprint(memberPort))
	if _, err := list.Join([]string{id + "/" + addr}); err != nil && !strings.Contains(err.Error(), errBusy.Error()) { // which says nothing
		return joinError(err, addr)
	}
	return nil
}

// joinError is what a failed join says to a user. memberlist hands on texts
// only, in a list, behind the address, which means nothing.
func joinError(err error, addr string) error {
	text := err.Error()
	if strings.Contains(text, "remote error: tls: bad certificate") {
		return errNotKnown
	}
	if _, after, ok := strings.Cut(text, addr+": "); ok {
		text = after
	}
	return errors.New(strings.TrimSpace(text))
}

// inspect asks memberlist for the state of every member it knows. The library
// has no call that tells suspect members from alive ones (Node.State is never
// set), nor an event for suspicion; but its wire protocol has: a push/pull,
// which it answers here from memory, over a connection without a network.
func inspect(streams chan<- net.Conn, stopped <-chan struct{}) (map[string]memberlist.NodeStateType, error) {
	request := bytes.NewBuffer([]byte{mlPushPull})
	handle := &codec.MsgpackHandle{}
	if err := codec.NewEncoder(request, handle).Encode(pushPullHeader{Join: true}); err != nil {
		return nil, err
	}
	q := &queryConn{request: request, closed: make(chan struct{})}
	select {
	case streams <- q:
	case <-stopped:
		return nil, errStopped
	}
	<-q.closed // it never waits for anything but locks
	if q.answer.Len() == 0 || q.answer.Next(1)[0] != mlPushPull {
		return nil, errMalformed
	}
	decoder := codec.NewDecoder(&q.answer, handle)
	var header pushPullHeader
	if err := decoder.Decode(&header); err != nil {
		return nil, err
	}
	states := make(map[string]memberlist.NodeStateType, header.Nodes)
	for range header.Nodes {
		var n pushNodeState
		if err := decoder.Decode(&n); err != nil {
			return nil, err
		}
		states[n.Name] = memberlist.NodeStateType(n.State)
	}
	return states, nil
}

// queryConn is a net.Conn whose other end has already said everything and
// keeps the answer.
type queryConn struct {
	request io.Reader
	answer  bytes.Buffer
	closed  chan struct{}
	once    sync.Once
}

func (c *queryConn) Read(p []byte) (int, error)       { return c.request.Read(p) }
func (c *queryConn) Write(p []byte) (int, error)      { return c.answer.Write(p) }
func (c *queryConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *queryConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *queryConn) SetDeadline(time.Time) error      { return nil }
func (c *queryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *queryConn) SetWriteDeadline(time.Time) error { return nil }

func (c *queryConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
