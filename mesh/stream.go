// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"

	"github.com/roster-mesh/roster/mesh/trust"
)

const (
	// maxStream bounds all that a peer sends in one memberlist stream.
	maxStream = 4 << 20
	// maxStreamNodes bounds the array that memberlist allocates when it has
	// read a push/pull header, before it has read a single member.
	maxStreamNodes = 2 * trust.MaxPins
	// maxStreamHeader is more than the longest header that memberlist writes.
	maxStreamHeader = 128
)

// pushPullHeader is memberlist's, field by field.
type pushPullHeader struct {
	Nodes        int
	UserStateLen int
	Join         bool
}

// pushNodeState is memberlist's, field by field.
type pushNodeState struct {
	Name        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Incarnation uint32
	State       int
	Vsn         []uint8
}

// stateReader reads the members of a push/pull, one at a time.
type stateReader struct {
	self    string
	left    int
	limit   io.LimitedReader
	source  recorder
	decoder *codec.Decoder
}

// next returns the encoding of the next member. Where its incarnation is not
// believable it becomes the lowest one, which memberlist ignores, since the
// header has promised that member.
func (s *stateReader) next() ([]byte, error) {
	if s.decoder == nil {
		s.source.r = &s.limit
		s.decoder = codec.NewDecoder(&s.source, &codec.MsgpackHandle{})
	}
	s.left--
	s.limit.N, s.source.read, s.source.err = maxMembership, s.source.read[:0], nil
	var n pushNodeState
	err := s.decoder.Decode(&n)
	switch {
	case err != nil && s.source.err != nil && !errors.Is(s.source.err, io.EOF):
		return nil, s.source.err
	case err != nil:
		return nil, fmt.Errorf("push/pull member: %w", errMalformed)
	}
	kind := byte(mlDead)
	if n.State == int(memberlist.StateAlive) {
		kind = mlAlive
	}
	if believable(s.self, kind, n.Name, n.Incarnation) {
		return s.source.read, nil
	}
	n.Incarnation = 0
	var b bytes.Buffer
	if err := codec.NewEncoder(&b, &codec.MsgpackHandle{}).Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), errForged
}

// inspectStream reads the opening of a memberlist stream and checks that the
// library can read the rest in bounded memory: by itself it would allocate a
// million members, or unpack 40 MiB, on a few bytes' word. It returns what it
// has read, to be read again, and how many members follow.
func inspectStream(r io.Reader) (head []byte, nodes int, err error) {
	var kind [1]byte
	if _, err := io.ReadFull(r, kind[:]); err != nil {
		return nil, 0, err
	}
	switch kind[0] {
	case mlPing, mlAck, mlError:
		return kind[:], 0, nil
	case mlPushPull:
	default:
		return nil, 0, fmt.Errorf("stream of type %d: %w", kind[0], errMalformed)
	}
	source := &recorder{r: io.LimitReader(r, maxStreamHeader)}
	var header pushPullHeader
	err = codec.NewDecoder(source, &codec.MsgpackHandle{}).Decode(&header)
	switch {
	case err != nil && source.err != nil && !errors.Is(source.err, io.EOF):
		return nil, 0, source.err // the connection's own, for example a deadline
	case err != nil, header.Nodes < 0, header.UserStateLen < 0:
		return nil, 0, fmt.Errorf("push/pull header: %w", errMalformed)
	}
	if header.Nodes > maxStreamNodes || header.UserStateLen > maxDigest {
		return nil, 0, fmt.Errorf("push/pull of %d members and %d bytes: %w", header.Nodes, header.UserStateLen, errOversized)
	}
	return append(kind[:], source.read...), header.Nodes, nil
}

// recorder keeps what was read through it, and why reading ended: the decoder
// does not hand errors through.
type recorder struct {
	r    io.Reader
	read []byte
	err  error
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.read = append(r.read, p[:n]...)
	r.err = err
	return n, err
}

// streamConn is a memberlist stream whose incoming side is bounded. The check
// of its opening happens in the first Read, under memberlist's deadline.
type streamConn struct {
	net.Conn
	dropped func(error)
	closed  func()

	// Only memberlist's one goroutine for the stream reads.
	opened bool
	head   bytes.Reader
	states stateReader
	err    error
	left   int64

	once sync.Once
}

// guardStream wraps a stream of the member self. dropped hears why a stream was refused; closed
// is called once, at Close.
func guardStream(self string, c net.Conn, dropped func(error), closed func()) *streamConn {
	s := &streamConn{Conn: c, dropped: dropped, closed: closed, left: maxStream}
	s.states.self = self
	s.states.limit.R = c
	return s
}

func (c *streamConn) Read(p []byte) (int, error) {
	if !c.opened {
		c.opened = true
		head, nodes, err := inspectStream(c.Conn)
		if err != nil {
			c.err = err
			c.dropped(err)
		}
		c.head.Reset(head)
		c.states.left = nodes
	}
	if c.err == nil && c.head.Len() == 0 && c.states.left > 0 && c.left > 0 {
		state, err := c.states.next()
		if err != nil {
			c.dropped(err)
		}
		if !errors.Is(err, errForged) {
			c.err = err
		}
		c.left -= int64(len(c.states.source.read))
		c.head.Reset(state)
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.head.Len() > 0 {
		return c.head.Read(p)
	}
	if c.left <= 0 {
		c.err = fmt.Errorf("stream: %w", errOversized)
		c.dropped(c.err)
		return 0, c.err
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func (c *streamConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}
