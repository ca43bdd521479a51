// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// A feud is a group whose members remove each other, restart, are cut off and come back under new keys. Whoever is
// reachable in the end knows of all removals, and at no time does anybody hold what a key says that it knows as
// removed.
func TestFeud(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFeud(t)
		t.Repeat(map[string]func(*rapid.T){
			"write":   f.write,
			"remove":  f.remove,
			"pull":    func(t *rapid.T) { f.pull(f.draw(t), f.draw(t)) },
			"restart": func(t *rapid.T) { f.restart(t, f.draw(t)) },
			"readmit": f.readmit,
			"":        f.check,
		})
		for range 8 {
			for _, a := range f.members {
				for _, b := range f.members {
					f.pull(a, b)
				}
			}
		}
		f.check(t)
		f.audit(t)
	})
}

type feud struct {
	members []*feuding
	issued  map[removedKey]bool
}

type feuding struct {
	id, key string // of testKey
	epoch   uint64
	ring    *ring
	replica *Replica
}

func newFeud(t *rapid.T) *feud {
	f := &feud{issued: map[removedKey]bool{}}
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		m := &feuding{id: id, key: id, ring: newRing(ids...)}
		f.members = append(f.members, m)
		f.restart(t, m)
	}
	return f
}

func (f *feud) draw(t *rapid.T) *feuding { return rapid.SampledFrom(f.members).Draw(t, "member") }

// restart keeps the pins and the removals, and loses the rest.
func (f *feud) restart(t *rapid.T, m *feuding) {
	var recorded []Removal
	if m.replica != nil {
		recorded = m.replica.Removals()
	}
	m.epoch++
	var err error
	m.replica, err = New(Options{Self: m.id, PrivateKey: testKey(m.key), Epoch: m.epoch, Keyring: m.ring, Removals: recorded})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.replica.Publish(Key{KindCluster, m.id}, Live, nil); err != nil {
		t.Fatal(err)
	}
	m.replica.Complete()
}

func (f *feud) write(t *rapid.T) {
	if _, err := f.draw(t).replica.Publish(rule(ruleNames.Draw(t, "name")), Live, payloadFor(t)); err != nil {
		t.Fatal(err)
	}
}

func (f *feud) remove(t *rapid.T) {
	by, target := f.draw(t), f.draw(t)
	key, ok := by.ring.Key(target.id)
	if by != target && !ok {
		return // nobody is removed whom one does not know
	}
	if by == target {
		key = keyOf(by.key)
	}
	r, err := by.replica.SignRemoval(target.id, key, "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := by.replica.Merge(r.Message(), target.id); err != nil {
		t.Fatal(err)
	}
	f.issued[r.about()] = true
}

// pull works as in the mesh: only between members that have pinned each other's present key.
func (f *feud) pull(to, from *feuding) {
	there, ok := to.ring.Key(from.id)
	back, too := from.ring.Key(to.id)
	if to == from || !ok || !too || !there.Equal(keyOf(from.key)) || !back.Equal(keyOf(to.key)) {
		return
	}
	_ = from.replica.Delta(to.replica.Digest(), func(msg []byte) error {
		_, _, _ = to.replica.Merge(msg, from.id) // some of it may be refused
		return nil
	})
}

// readmit gives a member a new key and swaps with another one.
func (f *feud) readmit(t *rapid.T) {
	m, with := f.draw(t), f.draw(t)
	if _, removed := m.replica.Removal(m.id, keyOf(m.key)); !removed || m == with {
		return
	}
	m.key += "'"
	m.ring = newRing()
	for _, r := range m.replica.Removals() {
		m.ring.Remove(r.ClusterID, r.PublicKey, r.Successor, r.Left())
	}
	f.restart(t, m)
	if !m.ring.removed[with.id+string(keyOf(with.key))] {
		m.ring.keys[with.id] = keyOf(with.key)
	}
	if _, pinned := with.ring.Key(m.id); !pinned {
		with.ring.keys[m.id] = keyOf(m.key)
	}
}

func (f *feud) check(t *rapid.T) {
	for _, m := range f.members {
		for _, e := range m.replica.Entries(KindCluster) {
			if _, removed := m.replica.Removal(e.Origin, e.PublicKey); removed && e.Origin != m.id {
				t.Fatalf("%s holds what the removed key of %s said", m.id, e.Origin)
			}
		}
	}
}

// audit: whoever is connected agrees, and no removal that a member in good standing knows of is unknown to another.
func (f *feud) audit(t *rapid.T) {
	for _, a := range f.members {
		for _, b := range f.members {
			there, ok := a.ring.Key(b.id)
			back, too := b.ring.Key(a.id)
			if a == b || !ok || !too || !there.Equal(keyOf(b.key)) || !back.Equal(keyOf(a.key)) {
				continue
			}
			if diff := cmp.Diff(a.replica.Removals(), b.replica.Removals(), cmp.AllowUnexported(Removal{}), cmpopts.IgnoreFields(Removal{}, "Voucher", "Introducer")); diff != "" {
				t.Fatalf("%s and %s know of different removals: %s", a.id, b.id, diff)
			}
		}
		for _, r := range a.replica.Removals() {
			if !f.issued[r.about()] {
				t.Fatalf("%s knows of the removal of %s, which nobody ordered", a.id, r.ClusterID)
			}
			if key, ok := a.ring.Key(r.ClusterID); ok && key.Equal(r.PublicKey) && r.ClusterID != a.id {
				t.Fatalf("%s has pinned the removed key of %s", a.id, r.ClusterID)
			}
		}
	}
}
