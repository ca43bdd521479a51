// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"testing"
)

// rekey ends all of the three, and gives the cluster another key, which those have heard of.
func (m *members) rekey(t *testing.T, heard ...int) {
	t.Helper()
	for i := range m.up {
		m.stop(t, i)
	}
	for _, i := range heard {
		m.keys[i] = "another key"
	}
	m.key = owner{PublicKey: []byte("another key")}.key()
}

// TestAnotherKey: under another key of the cluster a group is begun by most agents, though one is down that may have all
// of the one before, and that one comes to it.
func TestAnotherKey(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	m.tell(t, 'a', "one")
	before := m.now
	m.rekey(t, 0, 1, 2)
	m.start(t, 0)
	m.start(t, 1)
	second := m.leader(t)
	m.voters(t, second, 2)
	if m.now.Group == before.Group || m.now.Key != m.key {
		t.Fatalf("the record is %v after %v", m.now, before)
	}
	if got := m.up[second].table.get('a'); got != "" {
		t.Errorf("what was kept under the old key is held: %q", got)
	}
	m.start(t, 2)
	m.voters(t, 2, 3)
	m.tell(t, 'a', "two")
}

// TestAnotherKeyUnknown: a record that does not say its key is of the present one, so that nobody is passed over.
func TestAnotherKeyUnknown(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	m.rekey(t, 0, 1, 2)
	m.now.Key = ""
	before := m.now
	m.start(t, 0)
	m.start(t, 1)
	for range 4 {
		if err := m.up[0].journal.requestJoin(t.Context(), m.group(0), true); err == nil || errors.Is(err, ErrOtherGroup) {
			t.Fatalf("two of three begin anew: %v", err)
		}
	}
	m.start(t, 2)
	m.voters(t, m.leader(t), 3)
	if m.now == before || m.now.Key != m.key {
		t.Errorf("the record is %v", m.now)
	}
}

// TestAnotherKeyUnheardOf: an agent that has not heard of the next key does not replace its record, whatever it sees,
// and is told to start again.
func TestAnotherKeyUnheardOf(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	m.rekey(t, 0, 1)
	m.start(t, 0)
	m.start(t, 1)
	m.voters(t, m.leader(t), 2)
	before := m.now

	for _, disk := range []string{"kept", "lost", "that was of an agent alone"} {
		if disk != "kept" {
			m.loseDisk(t, 2)
		}
		if disk == "that was of an agent alone" {
			openDir(t, m.dirs[2]).close(t)
			if at, err := m.tryOpen(t, 2, func(w wire) Stream { return w }); !errors.Is(err, ErrOtherGroup) {
				if err == nil {
					m.up[2] = at
				}
				t.Fatalf("disk %s: %v", disk, err)
			}
		} else {
			m.start(t, 2)
			alone := &Group{Address: m.addresses[2], Peers: m.addresses[2:], Records: m}
			if err := m.up[2].journal.requestJoin(t.Context(), alone, true); !errors.Is(err, ErrOtherGroup) {
				t.Fatalf("disk %s: %v", disk, err)
			}
			m.stop(t, 2)
		}
		if m.now != before {
			t.Fatalf("disk %s: the record was %v and is %v", disk, before, m.now)
		}
	}
	m.loseDisk(t, 2)
	m.keys[2] = m.keys[0]
	m.start(t, 2)
	m.voters(t, 2, 3)
}

// TestAloneThenThreeUnderAnotherKey: a record that is left of a group under another key is nothing to one that was alone
// since.
func TestAloneThenThreeUnderAnotherKey(t *testing.T) {
	t.Parallel()
	m := &members{}
	m.place(t)
	m.now = Record{Group: "old", Founder: "gone", Key: "old"}
	m.key = owner{PublicKey: []byte("key")}.key()
	alone := openDir(t, m.dirs[1])
	alone.Append([]byte("aone"))
	alone.await(t, 1)
	alone.close(t)
	for i := range m.up {
		m.start(t, (i+1)%3)
	}
	m.voters(t, m.leader(t), 3)
	m.has(t, 'a', "one")
}
