// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/replica"
)

// someRemovals are removals by one member, of keys that nobody has.
func someRemovals(t *testing.T, n int) []removal {
	t.Helper()
	r := agenttest.Signer(t, agenttest.IDA, agenttest.Key(agenttest.IDA))
	out := make([]removal, n)
	for i := range out {
		key := sha256.Sum256(fmt.Append(nil, i))
		signed, err := r.SignRemoval(fmt.Sprintf("%0*d", replica.MaxOrigin, i), key[:], strings.Repeat("n", replica.MaxName), strings.Repeat("m", replica.MaxName), 1767323045)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = removal{Removal: signed, unknownKey: i%3 == 0, ended: i%2 == 0, ordered: i == 0, waiting: map[bool][]string{true: {"x"}}[i == 0]}
	}
	return out
}

// TestRemovalsAreRecorded: removals that need several Secrets are read back unchanged, and no Secret is too large.
func TestRemovalsAreRecorded(t *testing.T) {
	api, client := agenttest.NewAPIServer(t)
	p := store.New(client, "p")
	want := someRemovals(t, 2*removalsEach+7)
	if err := recordRemovals(t.Context(), p, want); err != nil {
		t.Fatal(err)
	}
	n, largest := api.Writes()
	if n != 3 || largest > 1<<20 {
		t.Errorf("%d Secrets, the largest with %d bytes", n, largest)
	}
	t.Logf("%d removals take %d bytes at most in a Secret", removalsEach, largest)
	got, err := readRemovals(t.Context(), p, slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g removal) bool { return g.ClusterID == w.ClusterID })
		if i < 0 || !slices.Equal(got[i].Message(), w.Message()) || got[i].unknownKey != w.unknownKey || got[i].ended != w.ended || got[i].ordered != w.ordered || !slices.Equal(got[i].waiting, w.waiting) {
			t.Fatalf("%s came back as %+v", w.ClusterID, got[max(i, 0)])
		}
	}
}

// TestRecordWithManyUnconfirmed: removals in a large group that almost no member has confirmed fit into their Secrets,
// and after a restart every member is asked.
func TestRecordWithManyUnconfirmed(t *testing.T) {
	api, client := agenttest.NewAPIServer(t)
	p := store.New(client, "p")
	list := someRemovals(t, removalsEach)
	var members []string
	for i := range 4000 {
		members = append(members, fmt.Sprintf("%0*d", replica.MaxOrigin, i))
	}
	for i := range list {
		list[i].ordered, list[i].waiting = true, members[:removalsWaiting+i%2]
	}
	list[0].waiting = members
	if err := recordRemovals(t.Context(), p, list); err != nil {
		t.Fatal(err)
	}
	_, largest := api.Writes()
	t.Logf("%d removals take %d bytes", removalsEach, largest)
	if largest > 1<<20 {
		t.Errorf("a Secret has %d bytes", largest)
	}
	if len(list[0].waiting) != len(members) {
		t.Error("what is recorded changed what is held")
	}
	got, err := readRemovals(t.Context(), p, slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(list) {
		t.Fatal(len(got), err)
	}
	for _, g := range got {
		if g.askAll == (len(g.waiting) > 0) || len(g.waiting) > removalsWaiting {
			t.Fatalf("%s is awaited by %d, all: %t", g.ClusterID, len(g.waiting), g.askAll)
		}
	}
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
		t.Fatal(err)
	}
	r, err := m.replica.SignRemoval(agenttest.IDB, agenttest.PublicKey(agenttest.IDB), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	m.ledger.add(removal{Removal: r, ordered: true, askAll: true})
	m.resume()
	if held, _ := m.ledger.lookup(agenttest.IDB, r.PublicKey); held.askAll || !slices.Equal(held.waiting, []string{agenttest.IDC}) {
		t.Errorf("after a restart it is awaited by %v", held.waiting)
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
