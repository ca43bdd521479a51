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
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// fixture is the membership of cluster IDA. Its tasks do not run.
type fixture struct {
	*Membership
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
	b.Membership = New(Options{
		ClusterID: agenttest.IDA, Key: agenttest.PublicKey(agenttest.IDA), Store: store.New(client, "p"), Client: client,
		Registry: informers.New(client, "n", log), Own: func() *v1alpha1.Cluster { return nil }, Name: func() string { return "a" },
		Credentials: b, ForgetCredential: func(_ context.Context, id string) error { return b.end("forgotten " + id) },
		Now: time.Now, Problems: &health.Problems{}, Log: log,
	})
	if err := b.o.Store.Replace(t.Context(), identitySecret, nil); err != nil {
		t.Fatal(err)
	}
	r, err := replica.New(replica.Options{Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: b.trust, Removed: b.Removed})
	if err != nil {
		t.Fatal(err)
	}
	b.Bind(r, nil)
	return b
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
		m.ledger = ledger{}
		m.Removed(signed, true, true)
		r, _ := m.ledger.lookup(agenttest.IDB, signed.PublicKey)
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
	m.ledger.add(removal{Removal: replica.Removal{ClusterID: agenttest.IDB, PublicKey: keys[1], By: agenttest.IDC}})
	m.trust.Remove(agenttest.IDB, keys[1])
	is("removed", true)
	if err := m.trust.Pin(agenttest.IDB, keys[2]); err != nil {
		t.Fatal(err)
	}
	is("admitted again", false)
	m.ledger.addDeparted([]string{agenttest.IDB})
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

// TestForgetGroupIsRetried: a step that failed is retried after the pins and the Cluster objects are gone.
func TestForgetGroupIsRetried(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDB, agenttest.PublicKey(agenttest.IDB)); err != nil {
		t.Fatal(err)
	}
	if err := m.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}, Spec: v1alpha1.ClusterSpec{ClusterID: types.UID(agenttest.IDC)}}
	copied.Labels, copied.Annotations = map[string]string{v1alpha1.LabelOwnerClusterID: agenttest.IDC}, map[string]string{v1alpha1.AnnotationOwnerClusterID: agenttest.IDC}
	if syncrules.Owner(copied) != agenttest.IDC {
		t.Fatal("not a copy")
	}
	if err := m.o.Registry.Put(copied); err != nil {
		t.Fatal(err)
	}
	m.failing = errors.New("not now")
	if err := m.forgetGroup(t.Context()); err == nil {
		t.Fatal("it says that it worked")
	}
	if err := m.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pins, err := readPins(t.Context(), m.o.Store, m.o.Log); err != nil || len(pins) != 1 {
		t.Fatalf("a restart would begin with %v: %v", pins, err)
	}
	if err := m.o.Registry.Drop(copied); err != nil {
		t.Fatal(err)
	}
	m.failing = nil
	if err := m.forgetGroup(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := m.ended()
	for _, want := range []string{"reissued", "revoked " + agenttest.IDB, "revoked " + agenttest.IDC, "forgotten " + agenttest.IDB} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is left; deleted: %v", want, got)
		}
	}
	if pins, err := readPins(t.Context(), m.o.Store, m.o.Log); err != nil || len(pins) != 0 {
		t.Errorf("%v is pinned still: %v", pins, err)
	}
	if err := m.forgetGroup(t.Context()); err != nil || len(m.ended()) > 0 {
		t.Error("it begins again:", err)
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
		held, err := readRemovals(t.Context(), m.o.Store, m.o.Log)
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

// TestForgottenPinsAreNotRecordedAgain: pins that are being recorded while the group is forgotten are deleted from the
// record in the end.
func TestForgottenPinsAreNotRecordedAgain(t *testing.T) {
	m := newFixture(t)
	pin := func(id string) {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	pin(agenttest.IDB)
	if err := m.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow, forgotten := make(chan struct{}), make(chan error, 1)
	var puts atomic.Int32
	m.api.Put = func(name string) {
		if name != trustSecret || puts.Add(1) > 1 {
			return
		}
		close(slow)
		select {
		case err := <-forgotten: // meanwhile
			forgotten <- err
		case <-time.After(100 * time.Millisecond): // or it waits
		}
	}
	pin(agenttest.IDC)
	recorded := make(chan error, 1)
	go func() { recorded <- m.recordPins(t.Context()) }()
	<-slow
	go func() { forgotten <- m.forgetGroup(t.Context()) }()
	for _, done := range []chan error{recorded, forgotten} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if pins, err := readPins(t.Context(), m.o.Store, m.o.Log); err != nil || len(pins) != 0 {
		t.Errorf("%v is pinned still: %v", pins, err)
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
	if !m.ledger.waitsFor(agenttest.IDC) {
		t.Fatal("the first removal does not wait for the second cluster")
	}
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		if err := m.sendRemovals(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if m.ledger.waitsFor(agenttest.IDC) {
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
