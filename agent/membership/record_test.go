// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/store"
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
