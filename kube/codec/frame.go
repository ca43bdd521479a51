// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// framer splits a stream of JSON into objects.
type framer struct{ runtime.Framer }

// NewFrameReader implements runtime.Framer.
func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &frameReader{Closer: r, from: bufio.NewReaderSize(r, 16<<10)}
}

// maxFrame is the size of the largest watch event, in bytes. The library's own framer has no bound: it reads a whole event
// into memory first.
const maxFrame = 16 << 20

var (
	errEventTooLarge = errors.New("event larger than 16 MiB")
	errNotAnObject   = errors.New("event is not a JSON object")
)

// frameReader returns one object with each Read. Where p is too short for it, Read returns io.ErrShortBuffer with what
// fits, and the rest with the next calls.
type frameReader struct {
	io.Closer
	from  *bufio.Reader
	frame []byte
	rest  []byte // of frame, not yet returned
}

func (r *frameReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	if cap(r.frame) > 1<<20 {
		r.frame = nil // do not keep the buffer of one large object
	}
	return n, nil
}

// next reads one object into rest.
func (r *frameReader) next() error {
	r.frame = r.frame[:0]
	var s scanner
	for {
		if _, err := r.from.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && s.begun {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		chunk, _ := r.from.Peek(r.from.Buffered()) // what has arrived, without waiting
		end, done, err := s.scan(chunk)
		if err != nil {
			return err
		}
		if len(r.frame)+end > maxFrame {
			return errEventTooLarge
		}
		r.frame = append(r.frame, chunk[:end]...)
		if _, err := r.from.Discard(end); err != nil {
			return err
		}
		if done {
			r.rest = r.frame
			return nil
		}
	}
}

// scanner finds the end of a JSON object. It checks nothing else of it.
type scanner struct {
	depth              int
	begun              bool
	inString, inEscape bool
}

// scan reads the next bytes. It returns how many of them belong to the object, and whether the object ends there.
func (s *scanner) scan(data []byte) (n int, done bool, err error) {
	for n < len(data) {
		if s.inString {
			n += s.skipString(data[n:])
			continue
		}
		c := data[n]
		n++
		switch c {
		case '{', '[':
			s.depth++
			s.begun = true
		case '}', ']':
			if s.depth--; s.depth == 0 {
				return n, true, nil
			}
		case '"':
			s.inString = true
		case ' ', '\t', '\r', '\n':
			continue
		}
		if s.depth <= 0 {
			return n, false, errNotAnObject
		}
	}
	return n, false, nil
}

// skipString returns how many bytes of data still belong to the string that scan is in.
func (s *scanner) skipString(data []byte) int {
	if s.inEscape {
		s.inEscape = false
		return 1
	}
	end := bytes.IndexByte(data, '"')
	within := data
	if end >= 0 {
		within = data[:end]
	}
	if escape := bytes.IndexByte(within, '\\'); escape >= 0 {
		s.inEscape = true
		return escape + 1
	}
	if end < 0 {
		return len(data)
	}
	s.inString = false
	return end + 1
}
