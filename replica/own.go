// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// headAbove is the message size above which an entry is accompanied by a head: it may
// not fit into a packet, and a member that gets only the head pulls it.
const headAbove = 8 << 10

// ErrEpoch is returned for an epoch that is not above all that were used before.
var ErrEpoch = errors.New("epoch is not above the last one")

// author writes the entries of the local cluster into a state. Its layer of the current
// epoch always exists and is the newest.
type author struct {
	state *State
	key   ed25519.PrivateKey
	epoch uint64
	seen  uint64 // highest own epoch that a peer showed at or above our position
}

func newAuthor(s *State, key ed25519.PrivateKey, epoch uint64) (*author, error) {
	if epoch < 1 || epoch > maxNumber {
		return nil, fmt.Errorf("%w: %d", ErrEpoch, epoch)
	}
	s.origin(s.self).open(epoch)
	return &author{state: s, key: key, epoch: epoch}, nil
}

func (a *author) origin() *origin { return a.state.origin(a.state.self) }

func (a *author) layer() *layer { return a.origin().layer(a.epoch) }

// publish writes an entry unless it says what is already said.
func (a *author) publish(key Key, status Status, payload []byte) ([][]byte, error) {
	held := a.layer().records[key]
	switch {
	case held == nil && status == Deleted,
		held != nil && status == Deleted && held.Status != Live,
		held != nil && status == held.Status && bytes.Equal(payload, held.Payload):
		return nil, nil
	}
	e := Entry{
		Key: key, Origin: a.state.self, Epoch: a.epoch, Sequence: a.layer().highest + 1,
		Status: status, Payload: bytes.Clone(payload),
	}
	if key.Kind == KindCluster {
		e.PublicKey = a.key.Public().(ed25519.PublicKey)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	r := signEntry(a.key, e, func(id [32]byte) [32]byte { return a.layer().claimWith(id, held) })
	if err := a.origin().room(a.layer(), r, held); err != nil {
		return nil, err
	}
	if _, err := a.state.mergeEntry(r); err != nil {
		return nil, err
	}
	if len(r.msg) <= headAbove {
		return [][]byte{r.msg}, nil
	}
	return [][]byte{r.msg, a.head().msg}, nil
}

// claimWith is the set's hash once an element has replaced what is held.
func (l *layer) claimWith(id [32]byte, held *record) [32]byte {
	next := l.set
	if held != nil {
		next.Remove(held.id)
	}
	next.Add(id)
	return next.Sum()
}

// head signs a head of the present set, unless the newest says the same.
func (a *author) head() *headRecord {
	l := a.layer()
	h := Head{Origin: a.state.self, Epoch: a.epoch, Sequence: l.highest, Set: l.set.Sum()}
	if l.head != nil {
		h.Complete, h.Announced = l.head.Complete, l.head.Announced
		if l.head.Head == h {
			return l.head
		}
	}
	a.state.mergeHead(signHead(a.key, h))
	return l.head
}

// complete marks the whole own set as announced.
func (a *author) complete() [][]byte {
	l := a.layer()
	if l.head != nil && l.head.Complete {
		return nil
	}
	h := signHead(a.key, Head{
		Origin: a.state.self, Epoch: a.epoch, Sequence: l.highest,
		Complete: true, Announced: l.highest, Set: l.set.Sum(),
	})
	a.state.mergeHead(h)
	return [][]byte{h.msg}
}

// tooManyTombstones says that there are more tombstones than keep, and than other entries: so announcing those again
// costs less than the deletions did.
func (a *author) tooManyTombstones(keep int) bool {
	l := a.layer()
	return a.seen == 0 && l.epoch == a.origin().completed && l.tombstones > keep && 2*l.tombstones > len(l.records)
}

// reopen announces everything again in a higher epoch, but tombstones: the Cluster entry first, then in
// the order of the old numbers.
func (a *author) reopen(epoch uint64) ([][]byte, error) {
	if epoch <= a.epoch || epoch <= a.seen || epoch > maxNumber {
		return nil, fmt.Errorf("%w: %d", ErrEpoch, epoch)
	}
	old := a.layer()
	again := slices.Collect(maps.Values(old.records)) // to say again that something is deleted says nothing
	for key, r := range a.origin().withdrawn {
		if old.records[key] == nil {
			again = append(again, r)
		}
	}
	slices.SortFunc(again, inDelta)
	a.epoch, a.seen = epoch, 0
	a.origin().open(epoch)
	var msgs [][]byte
	for _, r := range again {
		m, err := a.publish(r.Key, r.Status, r.Payload)
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, m...)
	}
	if old.head != nil && old.head.Complete {
		return append(msgs, a.complete()...), nil
	}
	return msgs, nil
}

// observe takes note of an own message that a peer holds. It never changes what we say of
// ourselves: a number above ours, or an entry that we did not write, is a sign that our
// epoch was used before (lost state) or is in use elsewhere (a clone).
func (a *author) observe(m *message) outcome {
	l := a.layer()
	if m.head != nil {
		other := l.head == nil || m.head.supersedes(l.head) // we hold the newest that we signed
		a.noteEpoch(m.head.Epoch, m.head.Sequence, other)
		return outcome{}
	}
	r := m.entry
	if r.Epoch < a.epoch {
		// Only a withdrawal that we forgot is worth keeping.
		if r.Epoch < a.origin().completed && r.Status == Withdrawn {
			return a.origin().mergeOld(r)
		}
		return outcome{}
	}
	held := l.records[r.Key]
	other := held == nil || held.Sequence < r.Sequence || held.Sequence == r.Sequence && held.hash != r.hash
	a.noteEpoch(r.Epoch, r.Sequence, other)
	return outcome{}
}

func (a *author) noteEpoch(epoch, sequence uint64, other bool) {
	highest := a.layer().highest
	if epoch < a.epoch || epoch == a.epoch && sequence <= highest && !other {
		return
	}
	a.seen = max(a.seen, epoch)
	if epoch == a.epoch && sequence <= highest {
		a.origin().reportClone(epoch, sequence)
	}
}
