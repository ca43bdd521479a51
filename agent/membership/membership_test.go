// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// fixture is the membership of cluster IDA. Its tasks do not run.
type fixture struct {
	*Membership
	options Options
	api     *agenttest.APIServer
	failing error // returned when credentials are revoked

	mu   sync.Mutex
	done []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, client := agenttest.NewAPIServer(t)
	b := &fixture{api: api}
	log := slog.New(slog.DiscardHandler)
	b.options = Options{
		ClusterID: agenttest.IDA, Key: agenttest.PublicKey(agenttest.IDA), Store: store.New(client, "p"), Client: client,
		Registry: informers.New(client, "n", log), Own: func() *v1alpha1.Cluster { return nil }, Name: func() string { return "a" },
		Credentials: b, ForgetCredential: func(_ context.Context, id string) error { return b.end("forgotten " + id) },
		Branch: func(string) []string { return nil }, Now: time.Now, Problems: &health.Problems{}, Log: log,
	}
	if err := b.options.Store.Replace(t.Context(), identitySecret, nil); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	return b
}

// open begins with what is recorded.
func (b *fixture) open(t *testing.T) {
	t.Helper()
	record, err := ReadRecord(t.Context(), b.options.Store, b.options.Log)
	if err != nil {
		t.Fatal(err)
	}
	b.options.Record = record
	b.Membership = New(b.options)
	r, err := replica.New(replica.Options{Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: b.trust, Removed: b.Removed, Removals: b.Removals()})
	if err != nil {
		t.Fatal(err)
	}
	b.Bind(r, nil)
}

func (b *fixture) end(what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing == nil {
		b.done = append(b.done, what)
	}
	return b.failing
}

// Revoke and Reissue implement Credentials.
func (b *fixture) Revoke(_ context.Context, id string) error { return b.end("revoked " + id) }
func (b *fixture) Reissue(context.Context) error             { return b.end("reissued") }

// ended returns what was ended since the last call.
func (b *fixture) ended() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.done
	b.done = nil
	return out
}

func (b *fixture) writes() int {
	n, _ := b.api.Writes()
	return n
}

// TestRemovalsOfUnknownKeys: a removal of an unknown key sends no request of its own, revokes nothing, and does not
// make the cluster that it names count as gone.
func TestRemovalsOfUnknownKeys(t *testing.T) {
	m := newFixture(t)
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	author, err := replica.New(replica.Options{Self: agenttest.IDC, PrivateKey: agenttest.Key(agenttest.IDC), Epoch: 1, Keyring: m.trust})
	if err != nil {
		t.Fatal(err)
	}
	remove := func(id, key string) {
		t.Helper()
		r, err := author.SignRemoval(id, agenttest.PublicKey(key), "", "", 0)
		if err == nil {
			_, _, err = m.replica.Merge(r.Message(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	remove(agenttest.IDB, "junk")
	remove("pasted", "junk")
	if wait, _ := m.work.carryOut.Due(); wait < recordUnknown/2 || m.Gone("pasted") || m.Gone(agenttest.IDB) {
		t.Errorf("they are recorded in %v; a cluster is gone: %t", wait, m.Gone("pasted"))
	}
	if err, ended := m.carryOut(t.Context()), m.ended(); err != nil || len(ended) != 0 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	remove(agenttest.IDB, agenttest.IDB)
	if wait, asked := m.work.carryOut.Due(); !m.Gone(agenttest.IDB) || m.Gone("pasted") || !asked || wait > 0 {
		t.Error("the cluster whose key it was is not gone")
	}
	if err, ended := m.carryOut(t.Context()), m.ended(); err != nil || !slices.Contains(ended, "revoked "+agenttest.IDB) || !slices.Contains(ended, "forgotten "+agenttest.IDB) {
		t.Errorf("ended: %v, %v", ended, err)
	}
	record, err := ReadRecord(t.Context(), m.o.Store, m.o.Log)
	m.o.Record = record
	if again := New(m.o); err != nil || !again.Gone(agenttest.IDB) || again.Gone("pasted") {
		t.Errorf("after a restart: %v", err)
	}
}

// TestRemovalAuthorIsVerified: the author of a removal is shown as certain only if its key was pinned here.
func TestRemovalAuthorIsVerified(t *testing.T) {
	m := newFixture(t)
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	for by, unverified := range map[string]bool{agenttest.IDC: false, "somebody": true} {
		signed := signedBy(t, by, agenttest.IDB, agenttest.Key(by))
		m.ledger = removals.Ledger{}
		m.Removed(signed, true, true)
		r, _ := m.ledger.Lookup(agenttest.IDB, signed.PublicKey)
		if text := removalText(r); !strings.Contains(text, "by cluster "+by) || strings.Contains(text, "as reported by another member") != unverified {
			t.Errorf("by %s: %s", by, text)
		}
	}
}

// TestGone: a cluster is gone after it was removed, or its group was left, until it is admitted again.
func TestGone(t *testing.T) {
	keys := [3]ed25519.PublicKey{}
	for i := range keys {
		seed := sha256.Sum256([]byte{byte(i)})
		keys[i] = ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	}
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDB, keys[1]); err != nil {
		t.Fatal(err)
	}
	is := func(what string, gone bool) {
		t.Helper()
		if m.Gone(agenttest.IDB) != gone {
			t.Errorf("%s: gone is %t", what, !gone)
		}
	}
	is("a member", false)
	m.ledger.Add(removal{Removal: replica.Removal{ClusterID: agenttest.IDB, PublicKey: keys[1], By: agenttest.IDC}})
	m.trust.Remove(agenttest.IDB, keys[1], nil, false)
	is("removed", true)
	if err := m.trust.Pin(agenttest.IDB, keys[2]); err != nil {
		t.Fatal(err)
	}
	is("admitted again", false)
	m.ledger.AddDeparted([]string{agenttest.IDB})
	m.trust.Forget(agenttest.IDB)
	is("left behind", true)
	if m.Gone(agenttest.IDA) || m.Gone(agenttest.IDC) {
		t.Error("others are gone, too")
	}
}

// signedBy is a removal of a cluster's key, signed by another cluster.
func signedBy(t *testing.T, by, id string, key ed25519.PrivateKey) replica.Removal {
	t.Helper()
	signed, err := agenttest.Signer(t, by, key).SignRemoval(id, agenttest.PublicKey(id), id, by, 1)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// TestOldTokensAreRevokedAfterReadmission: the tokens of a removed key are revoked also when the cluster was admitted
// again before the removal was carried out, as in a member that was away and merges both at once.
func TestOldTokensAreRevokedAfterReadmission(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDB, agenttest.PublicKey(agenttest.IDB)); err != nil {
		t.Fatal(err)
	}
	signed := signedBy(t, agenttest.IDC, agenttest.IDB, agenttest.Key(agenttest.IDC))
	if _, _, err := m.replica.Merge(signed.Message(), agenttest.IDB); err != nil {
		t.Fatal(err)
	}
	if err := m.trust.Pin(agenttest.IDB, agenttest.PublicKey("new")); err != nil {
		t.Fatal(err)
	}
	if err := m.carryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.ended(); !slices.Contains(got, "revoked "+agenttest.IDB) || !slices.Contains(got, "reissued") || slices.Contains(got, "forgotten "+agenttest.IDB) {
		t.Errorf("deleted: %v", got)
	}
}

// TestRemovalUnderAnotherClusterID: a member that combines a key of this group with the clusterID of no member ends no
// membership: neither that of the key's owner, which could then not be removed any more, nor that of this cluster.
func TestRemovalUnderAnotherClusterID(t *testing.T) {
	m := newFixture(t)
	keyB := agenttest.PublicKey(agenttest.IDB)
	if err := m.trust.Pin(agenttest.IDB, keyB); err != nil {
		t.Fatal(err)
	}
	liar := agenttest.Signer(t, agenttest.IDC, agenttest.Key(agenttest.IDC))
	for _, key := range []ed25519.PublicKey{keyB, m.o.Key} {
		lie, err := liar.SignRemoval("elsewhere", key, "", "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.replica.Merge(lie.Message(), agenttest.IDB); err != nil {
			t.Fatal(err)
		}
	}
	if _, pinned := m.trust.Key(agenttest.IDB); !pinned || m.Gone(agenttest.IDB) {
		t.Errorf("pinned: %t, gone: %t", pinned, m.Gone(agenttest.IDB))
	}
	if _, removed := m.removedFromGroup(); removed {
		t.Error("this cluster takes itself for removed")
	}
	ordered := signedBy(t, agenttest.IDA, agenttest.IDB, agenttest.Key(agenttest.IDA))
	if _, _, err := m.replica.Merge(ordered.Message(), ""); err != nil {
		t.Fatal(err)
	}
	if _, pinned := m.trust.Key(agenttest.IDB); pinned || !m.Gone(agenttest.IDB) {
		t.Errorf("after an order pinned: %t, gone: %t", pinned, m.Gone(agenttest.IDB))
	}
	if err := m.carryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := m.ended(); !slices.Contains(got, "revoked "+agenttest.IDB) {
		t.Errorf("its tokens are left; deleted: %v", got)
	}
}

// TestFloodOfRemovalsIsRecordedInFewWrites: each write is of a whole Secret, so many removals share one.
func TestFloodOfRemovalsIsRecordedInFewWrites(t *testing.T) {
	m := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.work.carryOut.Run(ctx) }()
	before, liar, flood := m.writes(), agenttest.Signer(t, agenttest.IDC, agenttest.Key(agenttest.IDC)), 200
	for i := range flood {
		key := agenttest.PublicKey(fmt.Sprint(i))
		if err := m.trust.Introduce(fmt.Sprint("made-up", i), key, agenttest.IDC); err != nil { // or it would wait for an hour
			t.Fatal(err)
		}
		lie, err := liar.SignRemoval(fmt.Sprint("made-up", i), key, "", "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.replica.Merge(lie.Message(), agenttest.IDB); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // as they come from a network
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		held, err := removals.Read(t.Context(), m.o.Store, m.o.Log)
		if err != nil {
			t.Fatal(err)
		}
		if len(held) == flood {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are recorded", len(held))
		}
	}
	if n := m.writes() - before; n > flood/4 {
		t.Errorf("%d writes for %d removals", n, flood)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestOrderedHere: a removal in this cluster's name that another key signed was not ordered here.
func TestOrderedHere(t *testing.T) {
	m := newFixture(t)
	if m.orderedHere(signedBy(t, agenttest.IDA, agenttest.IDB, agenttest.Key("another"))) {
		t.Error("another key's removal was ordered here")
	}
	if !m.orderedHere(signedBy(t, agenttest.IDA, agenttest.IDB, agenttest.Key(agenttest.IDA))) {
		t.Error("our own was not")
	}
	if m.orderedHere(signedBy(t, agenttest.IDA, agenttest.IDA, agenttest.Key(agenttest.IDA))) {
		t.Error("leaving is no order")
	}
}

// TestRemovedMemberNeedNotConfirm: of two clusters that are down and are removed one after the other, the first removal
// waits for the second cluster until that is removed, too.
func TestRemovedMemberNeedNotConfirm(t *testing.T) {
	m := newFixture(t)
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		signed := signedBy(t, agenttest.IDA, id, agenttest.Key(agenttest.IDA))
		if _, _, err := m.replica.Merge(signed.Message(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.ledger.WaitingFor(agenttest.IDC)) == 0 {
		t.Fatal("the first removal does not wait for the second cluster")
	}
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		if err := m.sendRemovals(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.ledger.WaitingFor(agenttest.IDC)) > 0 {
		t.Error("it waits for a cluster that was removed")
	}
	lines, confirmed := m.removalLines()
	if !confirmed || len(lines) != 1 {
		t.Errorf("%q, confirmed %t", lines, confirmed)
	}
	if _, found := v1alpha1.RemovalWaits(v1alpha1.JoinRemovals(lines), agenttest.IDC); !found {
		t.Errorf("%q does not have the last removal", lines)
	}
}

// TestLargeBranchIsRemovedAtOnce: who removes thousands of inventions has one list of those that must confirm it, also after one
// of them has.
func TestLargeBranchIsRemovedAtOnce(t *testing.T) {
	const inventions, honest = 3000, 50
	m := newFixture(t)
	net := meshtest.NewNetwork(time.Millisecond)
	var err error
	m.mesh, err = mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA)}, Trust: m.trust, State: m.replica, Network: net.Host("a"),
		Listen: ":7946", Origin: replica.Origin, Endpoints: func(string) []string { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range inventions + honest {
		id := fmt.Sprintf("x%04d", i)
		if err := m.trust.Introduce(id, agenttest.PublicKey(id), agenttest.IDC); err != nil {
			t.Fatal(err)
		}
		if i < inventions {
			ids = append(ids, id)
		}
	}
	if err := m.remove(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	shared := func(waiting int) {
		t.Helper()
		all := m.ledger.All()
		for _, r := range all {
			if len(r.Waiting) != waiting || &r.Waiting[0] != &all[0].Waiting[0] {
				t.Fatalf("%s has a list of %d of its own, for %d", r.ClusterID, len(r.Waiting), waiting)
			}
		}
		if len(all) != inventions {
			t.Fatalf("%d are removed", len(all))
		}
	}
	shared(honest)
	m.ledger.Confirmed("x3049", m.ledger.WaitingFor("x3049"))
	shared(honest - 1)
}

// TestWordsOutliveARestart: on whose word a member stays when who admitted it is removed is known after a restart.
func TestWordsOutliveARestart(t *testing.T) {
	m := newFixture(t)
	err := errors.Join(m.trust.Pin("x", agenttest.PublicKey("x")), m.trust.Introduce("w", agenttest.PublicKey("w"), "x"), m.trust.Introduce("v", agenttest.PublicKey("v"), "w"),
		m.trust.Introduce("u", agenttest.PublicKey("u"), "x"))
	if err != nil {
		t.Fatal(err)
	}
	m.trust.Keep([]string{"u"})
	m.trust.Remove("w", agenttest.PublicKey("w"), nil, false)
	for range 2 {
		if got := m.trust.Words("v"); !slices.Equal(got, []trust.Word{{Author: "x", For: "w"}}) {
			t.Errorf("v is a member on the word of %v", got)
		}
		if own, ok := m.trust.OwnOf("u"); !ok || own.Via != "" {
			t.Errorf("u is kept as %v", own)
		}
		if err := m.recordPins(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.open(t)
	}
}
