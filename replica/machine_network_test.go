// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"errors"

	"pgregory.net/rapid"
)

func (m *machine) broadcast(from int, msgs ...[]byte) {
	for _, msg := range msgs {
		for to := range m.clusters {
			if to != from {
				m.flying = append(m.flying, packet{from, to, msg})
			}
		}
	}
}

// reaches says whether what one sends arrives at another: the way is free, and both know each
// other's keys, or they have no connection.
func (m *machine) reaches(from, to int) bool {
	_, there := m.clusters[from].ring.Key(m.clusters[to].id)
	_, back := m.clusters[to].ring.Key(m.clusters[from].id)
	return there && back && !m.cut[[2]int{from, to}]
}

func (m *machine) sync(t *rapid.T, to, from int) {
	if to != from && m.reaches(to, from) && m.reaches(from, to) {
		m.pull(t, m.clusters[to], m.clusters[from])
	}
}

func (m *machine) pull(t *rapid.T, a, b *cluster) {
	if lack, err := a.replica.Lacks(b.replica.Digest()); err != nil || !lack {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	err := b.replica.Delta(a.replica.Digest(), func(msg []byte) error {
		_, _, err := a.replica.Merge(msg, b.id)
		if a == m.observer && errors.Is(err, ErrFull) || errors.Is(err, ErrUnknownOrigin) {
			return nil // whose Cluster entry b does not hold itself
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deliver lets a packet arrive, as a mesh does: what is new is forwarded, and who hears of somebody
// unknown is introduced by who told it, or asks.
func (m *machine) deliver(t *rapid.T, p packet) {
	if !m.reaches(p.from, p.to) {
		return
	}
	to, from := m.clusters[p.to], m.clusters[p.from]
	fresh, pull, err := to.replica.Merge(p.msg, "")
	if errors.Is(err, ErrUnknownOrigin) {
		fresh, pull, err = to.replica.Merge(p.msg, from.id)
	}
	if err != nil && !errors.Is(err, ErrUnknownOrigin) {
		t.Fatal(err)
	}
	if fresh && len(m.flying) < maxFlying {
		m.broadcast(p.to, p.msg)
	}
	if pull {
		m.sync(t, p.to, p.from)
	}
}

// refuses hands a member something that the origin has not signed.
func (m *machine) refuses(t *rapid.T, at *cluster, msg []byte, introducer string, wrong error) {
	before := string(at.replica.Digest()[:34])
	_, _, err := at.replica.Merge(msg, introducer)
	if err != nil && wrong != nil && !errors.Is(err, wrong) { // none: it is of an epoch that is over
		t.Fatalf("%s refuses a forgery as %v", at.id, err)
	}
	if string(at.replica.Digest()[:34]) != before {
		t.Fatalf("%s was changed by a forgery: %v", at.id, err)
	}
}

// forge signs something in another's name.
func (m *machine) forge(t *rapid.T, names *rapid.Generator[string]) {
	at, origin := m.clusters[m.cluster(t)], m.clusters[m.cluster(t)]
	e := Entry{
		Key: rule(names.Draw(t, "name")), Origin: origin.id, Epoch: origin.epoch + rapid.Uint64Range(0, 1).Draw(t, "epoch"),
		Sequence: rapid.Uint64Range(1, 20).Draw(t, "sequence"), Status: Deleted,
	}
	introducer := rapid.SampledFrom([]string{"", m.clusters[0].id}).Draw(t, "introducer")
	want := ErrSignature
	if _, known := at.ring.Key(origin.id); !known {
		want = ErrUnknownOrigin
	}
	r := signEntry(testKey("mallory"), e, func(id [32]byte) [32]byte { return id })
	m.refuses(t, at, r.msg, introducer, want)
	h := signHead(testKey("mallory"), Head{Origin: origin.id, Epoch: origin.epoch, Sequence: e.Sequence, Complete: true})
	m.refuses(t, at, h.msg, introducer, want)
}

// corrupt changes a byte of a packet on its way.
func (m *machine) corrupt(t *rapid.T) {
	if len(m.flying) == 0 {
		return
	}
	p := m.flying[rapid.IntRange(0, len(m.flying)-1).Draw(t, "packet")]
	msg := bytes.Clone(p.msg)
	msg[rapid.IntRange(0, len(msg)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	m.refuses(t, m.clusters[p.to], msg, rapid.SampledFrom([]string{"", m.clusters[p.from].id}).Draw(t, "introducer"), nil)
}
