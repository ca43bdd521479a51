// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A snapshot is the state as a stream of frames (a byte for the type, the length, the contents):
// the messages, verbatim, each behind what is known of its origin and epoch.
//
//	version note (origin withdrawn* evicted* (layer message*)*)* end
const snapshotVersion = 1

const (
	frameVersion byte = iota + 1
	frameNote
	frameOrigin
	frameWithdrawn
	frameLayer
	frameMessage
	frameEnd
	frameEvicted // in force with an epoch that made room: without it something older would be shown, or come back
)

// maxFrame bounds what is read at once: a message, or an epoch with all the numbers that it may
// have pending.
const maxFrame = MaxMessage + maxPending*binary.MaxVarintLen64

// ErrSnapshot is returned for a snapshot that this version cannot have written.
var ErrSnapshot = errors.New("snapshot cannot be read")

type frame struct {
	kind byte
	data []byte
}

// Snapshot captures all that is held and returns what writes it, any time later.
func (r *Replica) Snapshot() (write func(io.Writer) error) {
	r.mu.Lock()
	frames := r.state.frames()
	r.mu.Unlock()
	return func(w io.Writer) error {
		out := bufio.NewWriter(w)
		for _, f := range frames {
			head := binary.AppendUvarint([]byte{f.kind}, uint64(len(f.data)))
			if _, err := out.Write(head); err != nil {
				return err
			}
			if _, err := out.Write(f.data); err != nil {
				return err
			}
		}
		return out.Flush()
	}
}

// Restore replaces all that is held by a snapshot. An error leaves it as it is. It must not be
// called after [Replica.Open].
func (r *Replica) Restore(snapshot io.Reader) error {
	s, err := readState(bufio.NewReader(snapshot), r.self, r.state.limits)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.removals, s.pool.Parent = r.state.removals, r.state.pool.Parent // which no snapshot has
	r.state, r.digest = s, nil
	return nil
}

func (s *State) frames() []frame {
	out := []frame{{frameVersion, appendUint(nil, 1, snapshotVersion)}, {frameNote, s.note}}
	for _, id := range s.ids() {
		o := s.origins[id]
		out = append(out, frame{frameOrigin, encodeOrigin(o)})
		for _, r := range ordered(o.withdrawn) {
			out = append(out, frame{frameWithdrawn, r.msg})
		}
		for _, r := range ordered(o.evicted) {
			out = append(out, frame{frameEvicted, r.msg})
		}
		for _, l := range o.layers {
			out = append(out, frame{frameLayer, encodeLayer(l)})
			if l.head != nil {
				out = append(out, frame{frameMessage, l.head.msg})
			}
			for _, r := range ordered(l.records) {
				out = append(out, frame{frameMessage, r.msg})
			}
		}
	}
	return append(out, frame{frameEnd, nil})
}

// ordered lists records, of a clone too, in the same order always.
func ordered(records map[Key]*record) []*record {
	return slices.SortedFunc(maps.Values(records), inDelta)
}

// Fields of what is known of an origin.
const (
	knownOrigin protowire.Number = iota + 1
	knownCompleted
	knownForgotten
	knownMismatches
	knownRefused
	knownRoomNeeded
	knownCloneEpoch
	knownCloneSequence
	knownWithdrawalLost
)

func encodeOrigin(o *origin) []byte {
	b := appendBytes(nil, knownOrigin, []byte(o.id))
	b = appendUint(b, knownCompleted, o.completed)
	b = appendUint(b, knownForgotten, o.forgotten)
	b = appendUint(b, knownMismatches, o.mismatches)
	b = appendUint(b, knownRefused, o.refused)
	b = appendUint(b, knownRoomNeeded, uint64(o.roomNeeded))
	if o.clone != nil {
		b = appendUint(b, knownCloneEpoch, o.clone.Epoch)
		b = appendUint(b, knownCloneSequence, o.clone.Sequence)
	}
	return appendUint(b, knownWithdrawalLost, flag(o.withdrawalLost))
}

func (s *State) decodeOrigin(b []byte) (*origin, error) {
	r := reader{rest: b}
	id := string(r.bytes(knownOrigin, MaxOrigin))
	if s.origins[id] != nil || !validOrigin(id) {
		return nil, fmt.Errorf("%w: origin", ErrSnapshot)
	}
	o := s.origin(id)
	o.completed, o.forgotten = r.uint(knownCompleted), r.uint(knownForgotten)
	o.mismatches, o.refused = r.uint(knownMismatches), r.uint(knownRefused)
	o.roomNeeded = int(min(r.uint(knownRoomNeeded), MaxMessage))
	if epoch := r.uint(knownCloneEpoch); epoch > 0 {
		o.clone = &Clone{Origin: id, Epoch: epoch, Sequence: r.uint(knownCloneSequence)}
	}
	o.withdrawalLost = r.uint(knownWithdrawalLost) > 0
	return o, r.done()
}

// Fields of what is known of an epoch.
const (
	knownEpoch protowire.Number = iota + 1
	knownFrontier
	knownHighest
	knownLayerRefused
	knownPending
	knownClaim
	knownMet
	knownProven
	knownMismatch
	knownDoubt
	knownAbandonedTo
)

func encodeLayer(l *layer) []byte {
	b := appendUint(nil, knownEpoch, l.epoch)
	b = appendUint(b, knownFrontier, l.frontier)
	b = appendUint(b, knownHighest, l.highest)
	b = appendUint(b, knownLayerRefused, l.refused)
	var pending []byte
	last := l.frontier
	for _, n := range slices.Sorted(maps.Keys(l.pending)) {
		pending = binary.AppendUvarint(pending, n-last)
		last = n
	}
	b = appendBytes(b, knownPending, pending)
	b = appendBytes(b, knownClaim, l.claim[:])
	b = appendUint(b, knownMet, flag(l.claimMet))
	b = appendUint(b, knownProven, l.proven)
	b = appendUint(b, knownMismatch, flag(l.mismatch))
	b = appendUint(b, knownDoubt, uint64(l.doubt))
	return appendUint(b, knownAbandonedTo, l.abandonedTo)
}

func decodeLayer(b []byte) (*layer, error) {
	r := reader{rest: b}
	l := newLayer(r.uint(knownEpoch))
	l.frontier, l.highest, l.refused = r.uint(knownFrontier), r.uint(knownHighest), r.uint(knownLayerRefused)
	pending := r.bytes(knownPending, maxFrame)
	r.fixed(knownClaim, l.claim[:])
	l.claimMet, l.proven = r.uint(knownMet) > 0, r.uint(knownProven)
	l.mismatch = r.uint(knownMismatch) > 0
	l.doubt, l.abandonedTo = doubt(min(r.uint(knownDoubt), uint64(abandoned))), r.uint(knownAbandonedTo)
	if err := r.done(); err != nil {
		return nil, err
	}
	for n := l.frontier; len(pending) > 0; {
		step, size := binary.Uvarint(pending)
		if size <= 0 || len(l.pending) == maxPending {
			return nil, fmt.Errorf("%w: numbers past a gap", ErrSnapshot)
		}
		if l.pending == nil {
			l.pending = make(map[uint64]struct{})
		}
		n, pending = n+step, pending[size:]
		l.pending[n] = struct{}{}
	}
	return l, nil
}

func readFrame(in *bufio.Reader) (frame, error) {
	kind, err := in.ReadByte()
	if err != nil {
		return frame{}, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	size, err := binary.ReadUvarint(in)
	if err != nil || size > maxFrame {
		return frame{}, fmt.Errorf("%w: length of a frame", ErrSnapshot)
	}
	f := frame{kind, make([]byte, size)}
	if _, err := io.ReadFull(in, f.data); err != nil {
		return frame{}, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return f, nil
}

func readState(in *bufio.Reader, self string, limits Limits) (*State, error) {
	f, err := readFrame(in)
	if err != nil {
		return nil, err
	}
	version := reader{rest: f.data}
	if v := version.uint(1); f.kind != frameVersion || v != snapshotVersion || version.done() != nil {
		return nil, fmt.Errorf("%w: version %d, not %d", ErrSnapshot, v, snapshotVersion)
	}
	s := newState(self, limits)
	var o *origin
	var l *layer
	for {
		f, err := readFrame(in)
		if err != nil {
			return nil, err
		}
		switch {
		case f.kind == frameNote && o == nil && len(f.data) <= maxNote:
			s.note = f.data
		case f.kind == frameOrigin:
			if err = o.check(); err == nil {
				o, err = s.decodeOrigin(f.data)
			}
			l = nil
		case f.kind == frameWithdrawn && o != nil:
			err = o.readWithdrawn(f.data)
		case f.kind == frameEvicted && o != nil && l == nil:
			err = o.readEvicted(f.data)
		case f.kind == frameLayer && o != nil:
			if l, err = decodeLayer(f.data); err == nil {
				o.layers = append(o.layers, l)
			}
		case f.kind == frameMessage && l != nil:
			err = l.read(o.id, f.data)
		case f.kind == frameEnd:
			return s, o.check()
		default:
			err = fmt.Errorf("%w: frame of type %d", ErrSnapshot, f.kind)
		}
		if err != nil {
			return nil, err
		}
	}
}

// check says whether the origin is whole, and counts it. There may be none.
func (o *origin) check() error {
	if o == nil {
		return nil
	}
	last := uint64(0)
	for _, l := range o.layers {
		if l.epoch <= last || l.epoch < o.completed || l.proven > l.frontier || l.frontier > max(l.highest, l.proven) {
			return fmt.Errorf("%w: epoch %d of %s", ErrSnapshot, l.epoch, o.id)
		}
		last = l.epoch
	}
	if o.completed > 0 && o.base() == nil || len(o.layers) > maxLayers {
		return fmt.Errorf("%w: epochs of %s", ErrSnapshot, o.id)
	}
	for _, r := range o.evicted {
		if o.layer(r.Epoch) != nil {
			return fmt.Errorf("%w: evicted entry of %s", ErrSnapshot, o.id)
		}
	}
	o.state.count(o)
	return nil
}

func (o *origin) readWithdrawn(msg []byte) error {
	m, err := decodeMessage(msg)
	if err != nil {
		return err
	}
	if m.entry == nil || m.entry.Origin != o.id {
		return fmt.Errorf("%w: withdrawn entry of %s", ErrSnapshot, o.id)
	}
	o.forgetWithdrawal(m.entry.Key)
	o.withdrawn[m.entry.Key] = m.entry
	o.keptBytes += len(msg)
	return nil
}

func (o *origin) readEvicted(msg []byte) error {
	m, err := decodeMessage(msg)
	if err != nil {
		return err
	}
	if m.entry == nil || m.entry.Origin != o.id || m.entry.Epoch <= o.completed || o.evicted[m.entry.Key] != nil {
		return fmt.Errorf("%w: evicted entry of %s", ErrSnapshot, o.id)
	}
	if o.evicted == nil {
		o.evicted = make(map[Key]*record)
	}
	o.evicted[m.entry.Key] = m.entry
	o.keptBytes += len(msg)
	return nil
}

// read takes a message of the epoch, of which what it proves is known already.
func (l *layer) read(origin string, msg []byte) error {
	m, err := decodeMessage(msg)
	switch {
	case err != nil:
		return err
	case m.removal != nil, m.origin() != origin:
	case m.head != nil && m.head.Epoch == l.epoch:
		l.head = m.head
		return nil
	case m.entry != nil && m.entry.Epoch == l.epoch && l.records[m.entry.Key] == nil:
		r := m.entry
		l.set.Add(r.id)
		l.size += len(r.msg)
		l.tombstones += r.tombstones()
		l.records[r.Key] = r
		return nil
	}
	return fmt.Errorf("%w: message in epoch %d of %s that is not of it", ErrSnapshot, l.epoch, origin)
}
