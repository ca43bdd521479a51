// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"cmp"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Head is what an origin says of its whole set.
type Head struct {
	Origin string
	// Epoch and Sequence are the last number given out. Sequence is 0 in an epoch that
	// was opened and completed with nothing in it.
	Epoch, Sequence uint64
	// Complete says that the whole set had been announced in this epoch once the number
	// Announced was given out. Both stay as they are for the rest of the epoch, so that a
	// newer head proves no less than an older one.
	Complete  bool
	Announced uint64
	// Set is the hash of what the origin retains in this epoch.
	Set [32]byte
}

// headRecord is a head with its bytes.
type headRecord struct {
	Head
	hash [32]byte
	msg  []byte
}

// supersedes orders the heads of one origin and epoch. Equal numbers with different
// contents come from a clone; the smaller hash wins.
func (h *headRecord) supersedes(o *headRecord) bool {
	return cmp.Or(h.compareNumber(o), bytes.Compare(o.hash[:], h.hash[:])) > 0
}

func (h *headRecord) compareNumber(o *headRecord) int {
	return cmp.Or(cmp.Compare(h.Sequence, o.Sequence), cmp.Compare(flag(h.Complete), flag(o.Complete)))
}

// Fields of a head's core. The set travels beside the core, as in an entry.
const (
	headOrigin protowire.Number = iota + 1
	headEpoch
	headSequence
	_ // has never been sent
	headComplete
	headAnnounced
)

func encodeHead(h *Head) []byte {
	b := appendBytes(nil, headOrigin, []byte(h.Origin))
	b = appendUint(b, headEpoch, h.Epoch)
	b = appendUint(b, headSequence, h.Sequence)
	b = appendUint(b, headComplete, flag(h.Complete))
	return appendUint(b, headAnnounced, h.Announced)
}

func decodeHead(core []byte) (Head, error) {
	r := reader{rest: core}
	origin := r.bytes(headOrigin, MaxOrigin)
	h := Head{Epoch: r.uint(headEpoch), Sequence: r.uint(headSequence)}
	complete := r.uint(headComplete)
	h.Announced = r.uint(headAnnounced)
	if err := r.end(headAnnounced); err != nil {
		return Head{}, err
	}
	h.Origin, h.Complete = string(origin), complete == 1
	switch {
	case !validOrigin(h.Origin):
		return Head{}, fmt.Errorf("%w: origin", ErrMalformed)
	case h.Epoch < 1 || h.Epoch > maxNumber || h.Sequence > maxNumber:
		return Head{}, fmt.Errorf("%w: number", ErrMalformed)
	case complete > 1 || h.Announced > h.Sequence || !h.Complete && h.Announced > 0:
		return Head{}, fmt.Errorf("%w: completeness mark", ErrMalformed)
	}
	return h, nil
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
