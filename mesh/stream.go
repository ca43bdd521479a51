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
)

const (
	// maxStream bounds all that a peer sends in one memberlist stream.
	maxStream = 4 << 20
	// maxStreamNodes bounds the array that memberlist allocates when it has
	// read a push/pull header, before it has read a single member.
	maxStreamNodes = 2 * maxPins
	// maxStreamHeader is more than the longest header that memberlist writes.
	maxStreamHeader = 128
)

// pushPullHeader is memberlist's, field by field.
type pushPullHeader struct {
	Nodes        int
	UserStateLen int
	Join         bool
}

// pushNodeState is the part of memberlist's that we read.
type pushNodeState struct {
	Name  string
	State int
}

// inspectStream reads the opening of a memberlist stream and checks that the
// library can read the rest in bounded memory: by itself it would allocate a
// million members, or unpack 40 MiB, on a few bytes' word. It returns what it
// has read, to be read again.
func inspectStream(r io.Reader) (head []byte, err error) {
	var kind [1]byte
	if _, err := io.ReadFull(r, kind[:]); err != nil {
		return nil, err
	}
	switch kind[0] {
	case mlPing, mlAck, mlError:
		return kind[:], nil
	case mlPushPull:
	default:
		return nil, fmt.Errorf("stream of type %d: %w", kind[0], errMalformed)
	}
	source := &recorder{r: io.LimitReader(r, maxStreamHeader)}
	var header pushPullHeader
	err = codec.NewDecoder(source, &codec.MsgpackHandle{}).Decode(&header)
	switch {
	case err != nil && source.err != nil && !errors.Is(source.err, io.EOF):
		return nil, source.err // the connection's own, for example a deadline
	case err != nil, header.Nodes < 0, header.UserStateLen < 0:
		return nil, fmt.Errorf("push/pull header: %w", errMalformed)
	}
	if header.Nodes > maxStreamNodes || header.UserStateLen > maxDigest {
		return nil, fmt.Errorf("push/pull of %d members and %d bytes: %w", header.Nodes, header.UserStateLen, errOversized)
	}
	return append(kind[:], source.read...), nil
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
	err    error
	left   int64

	once sync.Once
}

// guardStream wraps a stream. dropped hears why a stream was refused; closed
// is called once, at Close.
func guardStream(c net.Conn, dropped func(error), closed func()) *streamConn {
	return &streamConn{Conn: c, dropped: dropped, closed: closed, left: maxStream}
}

func (c *streamConn) Read(p []byte) (int, error) {
	if !c.opened {
		c.opened = true
		head, err := inspectStream(c.Conn)
		if err != nil {
			c.err = err
			c.dropped(err)
		}
		c.head.Reset(head)
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
