// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// gate is an API server that refuses some deletes, and lists the others.
type gate struct {
	vault

	deletes sync.Mutex
	failing int // how many deletes fail from now on
	deleted []string
	put     func(name string) // called before an object is replaced
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && g.put != nil {
		g.put(path.Base(r.URL.Path))
	}
	if r.Method != http.MethodDelete {
		g.vault.ServeHTTP(w, r)
		return
	}
	g.deletes.Lock()
	defer g.deletes.Unlock()
	if g.failing > 0 {
		g.failing--
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	g.deleted = append(g.deleted, path.Base(r.URL.Path))
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
}

func (g *gate) writes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.written
}

// ended takes what was deleted.
func (g *gate) ended() []string {
	g.deletes.Lock()
	defer g.deletes.Unlock()
	out := g.deleted
	g.deleted = nil
	return out
}

func keyFor(id string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(id))
	return ed25519.NewKeyFromSeed(seed[:])
}

// grouped is a session of cluster idA, whose loops do not run.
func grouped(t *testing.T) (*session, *gate) {
	t.Helper()
	g := &gate{vault: vault{secrets: map[string][]byte{}}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &session{clusterID: idA, key: keyFor(idA), client: client, private: &private{client: client, namespace: "p"}, log: slog.New(slog.DiscardHandler)}
	if _, err := s.private.identity(t.Context(), idA, nil); err != nil {
		t.Fatal(err)
	}
	s.newLoops()
	s.problems.changed = func() {}
	s.issuer = kube.NewIssuer(client, "n", kube.Server{}, "a")
	s.trust = mesh.NewTrust(mesh.Pin{ClusterID: idA, PublicKey: s.key.Public().(ed25519.PublicKey)}, nil)
	s.peers, s.registry = newPeers(s, nil), newRegistry(s)
	if s.replica, err = replica.New(replica.Options{Self: idA, PrivateKey: s.key, Epoch: 1, Keyring: s.trust, Removed: s.removed}); err != nil {
		t.Fatal(err)
	}
	return s, g
}

// signer is another cluster, that signs.
func signer(t *testing.T, id string, key ed25519.PrivateKey) *replica.Replica {
	t.Helper()
	r, err := replica.New(replica.Options{Self: id, PrivateKey: key, Epoch: 1, Keyring: mesh.NewTrust(mesh.Pin{ClusterID: id, PublicKey: key.Public().(ed25519.PublicKey)}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// signedBy is the removal of a cluster's key by another.
func signedBy(t *testing.T, by, id string, key ed25519.PrivateKey) replica.Removal {
	t.Helper()
	signed, err := signer(t, by, key).SignRemoval(id, keyFor(id).Public().(ed25519.PublicKey), id, by, 1)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// TestTokensOfAnOldKeyEnd: also where the cluster is admitted again before its removal is carried out, as in a member
// that was away and hears of both at once.
func TestTokensOfAnOldKeyEnd(t *testing.T) {
	s, g := grouped(t)
	if err := s.trust.Pin(idB, keyFor(idB).Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	signed := signedBy(t, idC, idB, keyFor(idC))
	if _, _, err := s.replica.Merge(signed.Message(), idB); err != nil {
		t.Fatal(err)
	}
	if err := s.trust.Pin(idB, keyFor("new").Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	if err := s.carryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.ended(); !slices.Contains(got, readerAccount+"-"+idB) || !slices.Contains(got, bootstrapAccount) || slices.Contains(got, peerSecret+idB) {
		t.Errorf("deleted: %v", got)
	}
}

// TestForgettingGoesOn: what failed is tried again, though the pins and the Cluster objects of the others are gone.
func TestForgettingGoesOn(t *testing.T) {
	s, g := grouped(t)
	if err := s.trust.Pin(idB, keyFor(idB).Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	if err := s.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}, Spec: v1alpha1.ClusterSpec{ClusterID: types.UID(idC)}}
	copied.Labels, copied.Annotations = map[string]string{v1alpha1.LabelOwnerClusterID: idC}, map[string]string{v1alpha1.AnnotationOwnerClusterID: idC}
	if syncrules.Owner(copied) != idC {
		t.Fatal("not a copy")
	}
	if err := s.registry.clusterIndex.Add(copied); err != nil {
		t.Fatal(err)
	}
	g.failing = 100
	if err := s.forgetGroup(t.Context()); err == nil {
		t.Fatal("it says that it worked")
	}
	if err := s.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pins, err := s.private.pins(t.Context(), s.log); err != nil || len(pins) != 1 {
		t.Fatalf("a restart would begin with %v: %v", pins, err)
	}
	if err := s.registry.clusterIndex.Delete(copied); err != nil {
		t.Fatal(err)
	}
	g.failing = 0
	if err := s.forgetGroup(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := g.ended()
	for _, want := range []string{bootstrapAccount, readerAccount + "-" + idB, readerAccount + "-" + idC, peerSecret + idB} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is left; deleted: %v", want, got)
		}
	}
	if pins, err := s.private.pins(t.Context(), s.log); err != nil || len(pins) != 0 {
		t.Errorf("%v is pinned still: %v", pins, err)
	}
	if err := s.forgetGroup(t.Context()); err != nil || len(g.ended()) > 0 {
		t.Error("it begins again:", err)
	}
}

// TestRemovalUnderAnotherClusterID: a member that names a key of this group beside a cluster that there is not ends no
// part of a membership: neither that of the key's cluster, which could not be removed any more, nor our own.
func TestRemovalUnderAnotherClusterID(t *testing.T) {
	s, g := grouped(t)
	keyB := keyFor(idB).Public().(ed25519.PublicKey)
	if err := s.trust.Pin(idB, keyB); err != nil {
		t.Fatal(err)
	}
	liar := signer(t, idC, keyFor(idC))
	for _, key := range []ed25519.PublicKey{keyB, s.key.Public().(ed25519.PublicKey)} {
		lie, err := liar.SignRemoval("elsewhere", key, "", "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.replica.Merge(lie.Message(), idB); err != nil {
			t.Fatal(err)
		}
	}
	if _, pinned := s.trust.Key(idB); !pinned || s.gone(idB) {
		t.Errorf("pinned: %t, gone: %t", pinned, s.gone(idB))
	}
	if _, expelled := s.expelled(); expelled {
		t.Error("this cluster takes itself for removed")
	}
	ordered := signedBy(t, idA, idB, s.key)
	if _, _, err := s.replica.Merge(ordered.Message(), ""); err != nil {
		t.Fatal(err)
	}
	if _, pinned := s.trust.Key(idB); pinned || !s.gone(idB) {
		t.Errorf("after an order pinned: %t, gone: %t", pinned, s.gone(idB))
	}
	if err := s.carryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.ended(); !slices.Contains(got, readerAccount+"-"+idB) {
		t.Errorf("its tokens are left; deleted: %v", got)
	}
}

// TestFloodOfRemovalsIsRecordedInFewWrites: each write is of a whole Secret, so there are not as many as removals.
func TestFloodOfRemovalsIsRecordedInFewWrites(t *testing.T) {
	s, g := grouped(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.chores.run(ctx, 2) }()
	before, liar, flood := g.writes(), signer(t, idC, keyFor(idC)), 200
	for i := range flood {
		key := keyFor(fmt.Sprint(i)).Public().(ed25519.PublicKey)
		if err := s.trust.Introduce(fmt.Sprint("made-up", i), key, idC); err != nil { // or it would wait for an hour
			t.Fatal(err)
		}
		lie, err := liar.SignRemoval(fmt.Sprint("made-up", i), key, "", "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.replica.Merge(lie.Message(), idB); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // as they come from a network
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		held, err := s.private.removals(t.Context(), s.log)
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
	if n := g.writes() - before; n > flood/4 {
		t.Errorf("%d writes for %d removals", n, flood)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestPinsOfTheGroupDoNotComeBack: pins that are being recorded while the group is forgotten are not what is recorded
// in the end.
func TestPinsOfTheGroupDoNotComeBack(t *testing.T) {
	s, g := grouped(t)
	pin := func(id string) {
		if err := s.trust.Pin(id, keyFor(id).Public().(ed25519.PublicKey)); err != nil {
			t.Fatal(err)
		}
	}
	pin(idB)
	if err := s.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow, forgotten := make(chan struct{}), make(chan error, 1)
	var puts atomic.Int32
	g.put = func(name string) {
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
	pin(idC)
	recorded := make(chan error, 1)
	go func() { recorded <- s.recordPins(t.Context()) }()
	<-slow
	go func() { forgotten <- s.forgetGroup(t.Context()) }()
	for _, done := range []chan error{recorded, forgotten} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if pins, err := s.private.pins(t.Context(), s.log); err != nil || len(pins) != 0 {
		t.Errorf("%v is pinned still: %v", pins, err)
	}
}

// TestOrderedHere: a removal in this cluster's name that another key signed was not ordered here.
func TestOrderedHere(t *testing.T) {
	s, _ := grouped(t)
	if s.orderedHere(signedBy(t, idA, idB, keyFor("another"))) {
		t.Error("another key's removal was ordered here")
	}
	if !s.orderedHere(signedBy(t, idA, idB, s.key)) {
		t.Error("our own was not")
	}
	if s.orderedHere(signedBy(t, idA, idA, s.key)) {
		t.Error("leaving is no order")
	}
}

// TestRemovedMemberIsNotWaitedFor: of two that are down and are removed one after the other, the first removal waits
// for the second cluster until that is removed, too.
func TestRemovedMemberIsNotWaitedFor(t *testing.T) {
	s, _ := grouped(t)
	for _, id := range []string{idB, idC} {
		if err := s.trust.Pin(id, keyFor(id).Public().(ed25519.PublicKey)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{idB, idC} {
		signed := signedBy(t, idA, id, s.key)
		if _, _, err := s.replica.Merge(signed.Message(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if !s.removals.awaits(idC) {
		t.Fatal("the first removal does not wait for the second cluster")
	}
	for s.tells.queue.Len() > 0 {
		s.tells.next(t.Context())
	}
	if s.removals.awaits(idC) {
		t.Error("it waits for a cluster that was removed")
	}
	lines, confirmed := s.orders()
	if !confirmed || len(lines) != 1 {
		t.Errorf("%q, confirmed %t", lines, confirmed)
	}
	if _, found := v1alpha1.RemovalWaits(v1alpha1.JoinRemovals(lines), idC); !found {
		t.Errorf("%q does not tell of the last removal", lines)
	}
}
