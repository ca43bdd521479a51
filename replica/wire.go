// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// reader walks the fields of one protobuf message that is encoded in the only form
// accepted here: ascending field numbers, each at most once, zero values left out,
// minimal varints. Fields are asked for in ascending order; whatever is not consumed that
// way is found by done, or by end where a later version may have added fields. The first error sticks.
type reader struct {
	rest []byte
	err  error
}

// peek reports whether the next field is num with type typ, and steps over its tag.
func (r *reader) peek(num protowire.Number, typ protowire.Type) bool {
	if r.err != nil || len(r.rest) == 0 {
		return false
	}
	tag, n := protowire.ConsumeVarint(r.rest)
	if n < 0 {
		r.err = fmt.Errorf("%w: broken tag", ErrMalformed)
		return false
	}
	if tag != protowire.EncodeTag(num, typ) {
		return false
	}
	if n != protowire.SizeVarint(tag) {
		r.err = fmt.Errorf("%w: tag of field %d is not minimal", ErrMalformed, num)
		return false
	}
	r.rest = r.rest[n:]
	return true
}

// uint returns field num, 0 when it is absent.
func (r *reader) uint(num protowire.Number) uint64 {
	if !r.peek(num, protowire.VarintType) {
		return 0
	}
	v, n := protowire.ConsumeVarint(r.rest)
	if n < 0 || n != protowire.SizeVarint(v) || v == 0 {
		r.err = fmt.Errorf("%w: field %d is not a minimal number", ErrMalformed, num)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes returns field num, nil when it is absent. The result aliases the input.
func (r *reader) bytes(num protowire.Number, most int) []byte {
	if !r.peek(num, protowire.BytesType) {
		return nil
	}
	size, n := protowire.ConsumeVarint(r.rest)
	switch {
	case n < 0 || n != protowire.SizeVarint(size) || size == 0:
		r.err = fmt.Errorf("%w: length of field %d", ErrMalformed, num)
		return nil
	case size > uint64(most):
		r.err = fmt.Errorf("%w: field %d has %d bytes, at most %d are allowed", ErrTooLarge, num, size, most)
		return nil
	case size > uint64(len(r.rest)-n):
		r.err = fmt.Errorf("%w: field %d is cut off", ErrMalformed, num)
		return nil
	}
	v := r.rest[n : n+int(size) : n+int(size)]
	r.rest = r.rest[n+int(size):]
	return v
}

// fixed copies field num into dst, which it must fill exactly.
func (r *reader) fixed(num protowire.Number, dst []byte) {
	v := r.bytes(num, len(dst))
	if r.err == nil && len(v) != len(dst) {
		r.err = fmt.Errorf("%w: field %d has %d bytes, not %d", ErrMalformed, num, len(v), len(dst))
		return
	}
	copy(dst, v)
}

// done returns the first error, or one for what was not consumed.
func (r *reader) done() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%w: unknown, repeated or misplaced field", ErrMalformed)
	}
	return r.err
}

// end is done for a message that may have fields after last, the last one that this version knows: those are stepped
// over.
func (r *reader) end(last protowire.Number) error {
	for r.err == nil && len(r.rest) > 0 {
		num, typ, n := protowire.ConsumeTag(r.rest)
		if n < 0 || num <= last || n != protowire.SizeTag(num) || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			break
		}
		size := protowire.ConsumeFieldValue(num, typ, r.rest[n:])
		if size < 0 {
			break
		}
		r.rest, last = r.rest[n+size:], num
	}
	return r.done()
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}
