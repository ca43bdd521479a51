// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// TestAllAreAsked: where too many members were to confirm a removal to be recorded, a restart asks every member.
func TestAllAreAsked(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
		t.Fatal(err)
	}
	r, err := m.replica.SignRemoval(agenttest.IDB, agenttest.PublicKey(agenttest.IDB), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	m.ledger.Add(removal{Removal: r, Ordered: true, AskAll: true})
	m.resume()
	if held, _ := m.ledger.Lookup(agenttest.IDB, r.PublicKey); held.AskAll || !slices.Equal(held.Waiting, []string{agenttest.IDC}) {
		t.Errorf("after a restart it is awaited by %v", held.Waiting)
	}
}

// TestReadDeparted: an empty clusterID, which an agent recorded that took a Cluster without one for a member, is none.
func TestReadDeparted(t *testing.T) {
	_, client := agenttest.NewAPIServer(t)
	secrets := store.New(client, "p")
	if ids, err := readDeparted(t.Context(), secrets); err != nil || len(ids) > 0 {
		t.Errorf("before there is a record: %q, %v", ids, err)
	}
	record := map[string][]byte{departedKey: fmt.Appendf(nil, `["",%q]`, agenttest.IDB)}
	if err := secrets.Replace(t.Context(), identitySecret, record); err != nil {
		t.Fatal(err)
	}
	if ids, err := readDeparted(t.Context(), secrets); err != nil || !slices.Equal(ids, []string{agenttest.IDB}) {
		t.Errorf("%q, %v", ids, err)
	}
}

// due is when the removals are recorded next.
func (b *fixture) due(t *testing.T, when string, want bool, within time.Duration) {
	t.Helper()
	if wait, asked := b.work.carryOut.Due(); asked != want || asked && (wait > within || wait < within-recordUnknown/2) {
		t.Errorf("%s, a record is due: %t, in %v", when, asked, wait)
	}
}

// TestRecordOfHeldRemovals: a removal that is held is recorded where an earlier version does not look, soon if it is of a member,
// and not again when a member signs it once more. What such a version does with the record it does to what is in effect alone.
func TestRecordOfHeldRemovals(t *testing.T) {
	m := guarded(t, "m", "b", "c")
	m.hears(t, "m", "b")
	m.record(t)
	m.reopen(t)
	m.hears(t, "m", "c")
	m.due(t, "held", true, recordHeld)
	m.record(t)
	secret, err := m.o.Store.Read(t.Context(), removals.Secret)
	if err != nil || len(secret.Data) != 1 {
		t.Errorf("an earlier version reads %d removals: %v", len(secret.Data), err)
	}
	m.reopen(t)
	before, _ := m.replica.Removal("c", agenttest.PublicKey("c"))
	signer, changed := agenttest.Signer(t, "m", agenttest.Key("m")), 0
	for i := range int64(20) {
		again, err := signer.SignRemoval("c", agenttest.PublicKey("c"), "", "", i)
		if err == nil {
			_, _, err = m.replica.Merge(again.Message(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := m.replica.Removal("c", agenttest.PublicKey("c")); now.Time != before.Time {
			before, changed = now, changed+1
		}
	}
	if m.due(t, "signed again", false, 0); changed == 0 {
		t.Error("no other statement was kept")
	}
	m.hears(t, "m", "z")
	m.due(t, "of nobody", true, recordUnknown)
	if err := m.Keyring().Introduce("z", agenttest.PublicKey("z"), "c"); err != nil {
		t.Fatal(err)
	}
	m.due(t, "introduced", true, recordHeld)
}

// TestBranchGoesAfterARestart: m removes h with those that h admitted, and the agent restarts before it has heard of all of these. They go
// along as one with h, as they would have without the restart.
func TestBranchGoesAfterARestart(t *testing.T) {
	m := guarded(t)
	m.options.Members = func() (all []removalguard.Member) {
		for _, id := range []string{"m", "b", "h", "x", "y", "z"} {
			parent := map[string]string{"x": "h", "y": "h", "z": "h"}[id]
			if m.IsPinned(id) {
				all = append(all, removalguard.Member{ClusterID: id, Parent: parent})
			}
		}
		return all
	}
	m.reopen(t)
	for _, id := range []string{"m", "b", "h"} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"x", "y", "z"} {
		if err := m.Keyring().Introduce(id, agenttest.PublicKey(id), "h"); err != nil {
			t.Fatal(err)
		}
	}
	m.hears(t, "m", "h")
	m.hears(t, "m", "x")
	m.wants(t, "before the restart", map[string]bool{"m": true, "b": true, "h": false, "x": false, "y": true, "z": true})
	m.record(t)
	m.reopen(t)
	m.hears(t, "m", "y")
	m.hears(t, "m", "z")
	m.wants(t, "after it", map[string]bool{"m": true, "b": true, "h": false, "x": false, "y": false, "z": false})
	for _, id := range []string{"x", "y", "z"} {
		if r, _ := m.ledger.Lookup(id, agenttest.PublicKey(id)); r.Standing.Charge == nil || r.Standing.Charge.Unit != "h" {
			t.Errorf("the removal of %s counts on its own: %+v", id, r.Standing.Charge)
		}
	}
}
