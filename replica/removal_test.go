// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// keyOf is the public test key of a cluster.
func keyOf(id string) ed25519.PublicKey { return testKey(id).Public().(ed25519.PublicKey) }

// removalOf is by's statement that another cluster's test key is removed.
func removalOf(t fatal, by *Replica, id string, at int64) []byte {
	r, err := by.SignRemoval(id, keyOf(id), "name-of-"+id, "name-of-"+by.self, at)
	if err != nil {
		t.Fatalf("sign removal: %v", err)
	}
	return r.Message()
}

// removedIDs are the clusters whose removal is held.
func removedIDs(r *Replica) (ids []string) {
	for _, removal := range r.Removals() {
		ids = append(ids, removal.ClusterID)
	}
	return ids
}

func TestRemovalBeatsEverythingOfItsKey(t *testing.T) {
	c := newReplica(t, "c", 1, "a", "b")
	b := newReplica(t, "b", 5)
	said := slices.Concat(publish(t, b, Key{KindCluster, "b"}, Live, "spec"), publish(t, b, rule("p"), Live, "1"), b.Complete())
	merge(t, c, said...)
	var told []Removal
	c.removing.told = func(r Removal, _, first bool) {
		if first {
			told = append(told, r)
		}
	}
	if fresh, _ := merge(t, c, removalOf(t, newReplica(t, "a", 1), "b", 7)); !fresh {
		t.Fatal("a removal is no news")
	}
	if len(c.Entries(KindRule)) != 0 || len(c.Entries(KindCluster)) != 0 {
		t.Fatal("entries of a removed key are still in force")
	}
	if len(told) != 1 || told[0].ClusterID != "b" || told[0].By != "a" || told[0].Name != "name-of-b" || told[0].Time != 7 || told[0].Left() {
		t.Fatalf("told of %+v", told)
	}
	for _, msg := range said {
		for _, introducer := range []string{"", "a"} {
			if _, _, err := c.Merge(msg, introducer); err == nil {
				t.Fatalf("%x is taken again", msg[:8])
			}
		}
	}
	if len(c.Entries(KindRule)) != 0 {
		t.Fatal("it came back")
	}
}

// leaveOf is id's statement that it leaves and goes on under another key.
func leaveOf(t fatal, id, successor string, at int64) *removalRecord {
	r, err := signRemoval(testKey(id), Removal{ClusterID: id, PublicKey: keyOf(id), By: id, Successor: keyOf(successor), Time: at})
	if err != nil {
		t.Fatalf("sign leave: %v", err)
	}
	return r
}

// Another member's removal of a key is kept rather than its own leave, whatever the hashes and the order; and the keyring
// is told of the successor only while that is not held.
func TestRemovalBeatsALeave(t *testing.T) {
	hashes := map[bool]bool{}
	for at := range int64(16) {
		leave, removal := leaveOf(t, "b", "next", at), removalOf(t, newReplica(t, "a", 1), "b", at)
		m, err := decodeMessage(removal)
		if err != nil {
			t.Fatal(err)
		}
		hashes[bytes.Compare(leave.hash[:], m.removal.hash[:]) < 0] = true
		for _, order := range [][][]byte{{leave.msg, removal}, {removal, leave.msg}} {
			c := newReplica(t, "c", 1, "a", "b")
			for _, msg := range order {
				if _, _, err := c.Merge(msg, "a"); err != nil {
					t.Fatal(err)
				}
			}
			if held, _ := c.Removal("b", keyOf("b")); held.Left() || held.By != "a" || held.Successor != nil {
				t.Fatalf("held is %+v", held)
			}
		}
	}
	if len(hashes) != 2 {
		t.Error("the hashes were in one order only")
	}
}

// The successor is signed, outlives a record, and is one of the key itself only.
func TestSuccessorOfALeave(t *testing.T) {
	a := newReplica(t, "a", 1)
	r, err := a.SignLeave(keyOf("next"), "alpha", 7)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParseRemoval(r.Message())
	if err != nil || !parsed.Left() || !parsed.Successor.Equal(keyOf("next")) || parsed.Name != "alpha" {
		t.Fatalf("%+v: %v", parsed, err)
	}
	forged := bytes.Replace(r.Message(), keyOf("next"), keyOf("thief"), 1)
	if _, err := ParseRemoval(forged); !errors.Is(err, ErrSignature) {
		t.Fatal("another successor:", err)
	}
	foreign, err := signRemoval(testKey("m"), Removal{ClusterID: "a", PublicKey: keyOf("a"), By: "m", Successor: keyOf("m")})
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := ParseRemoval(foreign.msg); err != nil || parsed.Successor != nil {
		t.Fatalf("a removal names who is next: %+v, %v", parsed, err)
	}
}

func TestLeave(t *testing.T) {
	a, b := newReplica(t, "a", 1, "b"), newReplica(t, "b", 1, "a")
	merge(t, b, publish(t, a, rule("p"), Live, "1")...)
	r, err := a.SignRemoval("a", keyOf("a"), "", "", 0)
	if err != nil || !r.Left() {
		t.Fatal(r, err)
	}
	merge(t, b, r.Message())
	if got := b.Entries(KindRule); len(got) != 0 {
		t.Fatal(got)
	}
	merge(t, a, r.Message()) // at itself too: its own entries stay its own
	if len(a.Entries(KindRule)) != 1 {
		t.Fatal("a cluster that left lost its own rules")
	}
}

func TestRemovalIsRefused(t *testing.T) {
	c := newReplica(t, "c", 1, "a", "b")
	stranger := removalOf(t, newReplica(t, "x", 1), "b", 0)
	if _, pull, err := c.Merge(stranger, ""); !errors.Is(err, ErrUnknownOrigin) || !pull {
		t.Fatal("by a stranger:", pull, err)
	}
	// Signed by another key than the one it names, and in the name of a member by another key.
	forged := bytes.Clone(removalOf(t, newReplica(t, "a", 1), "b", 0))
	forged[len(forged)-1] ^= 1
	if _, _, err := c.Merge(forged, "a"); !errors.Is(err, ErrSignature) {
		t.Fatal("forged:", err)
	}
	borrowed, err := signRemoval(testKey("x"), Removal{ClusterID: "b", PublicKey: keyOf("b"), By: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Merge(borrowed.msg, ""); !errors.Is(err, ErrUnknownOrigin) {
		t.Fatal("in a member's name:", err)
	}
	// What a removed member says afterwards.
	merge(t, c, removalOf(t, newReplica(t, "a", 1), "b", 0))
	if _, pull, err := c.Merge(removalOf(t, newReplica(t, "b", 1), "a", 0), ""); !errors.Is(err, ErrRemoved) || pull {
		t.Fatal("by a removed member:", pull, err)
	}
	if got := removedIDs(c); !slices.Equal(got, []string{"b"}) {
		t.Fatal(got)
	}
	if _, err := signRemoval(testKey("b"), Removal{ClusterID: "c", PublicKey: keyOf("b"), By: "b"}); !errors.Is(err, ErrMalformed) {
		t.Fatal("a key that removes itself under another name:", err)
	}
}

// Two members that remove each other are both removed, whoever is heard first; they may both come back with new keys.
func TestMutualRemoval(t *testing.T) {
	ab, ba := removalOf(t, newReplica(t, "a", 1), "b", 0), removalOf(t, newReplica(t, "b", 1), "a", 0)
	c, d := newReplica(t, "c", 1, "a", "b", "d"), newReplica(t, "d", 1, "a", "b", "c")
	merge(t, c, ab)
	merge(t, d, ba)
	for i := 0; i < 3 && (lacks(t, c, d) || lacks(t, d, c)); i++ {
		pullFrom(t, c, d)
		pullFrom(t, d, c)
	}
	for _, r := range []*Replica{c, d} {
		if got := removedIDs(r); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%s knows of the removal of %v", r.self, got)
		}
	}
	if !bytes.Equal(c.Digest()[:34], d.Digest()[:34]) {
		t.Error("they differ")
	}
	// A newcomer never knew either of them.
	e := newReplica(t, "e", 1, "c")
	pullFrom(t, e, c)
	if got := removedIDs(e); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("a newcomer knows of %v", got)
	}
}

// Of a flood a reader refuses so much that it ends the delta: entries come before.
func TestFloodOfRemovalsComesLast(t *testing.T) {
	c := newReplica(t, "c", 1, "a")
	publish(t, c, rule("p"), Live, "1")
	for i := range removalsFirst + 1 {
		if _, _, err := c.Merge(junkRemoval(t, "a", "a", i), ""); err != nil {
			t.Fatal(err)
		}
		m, err := decodeMessage(c.state.delta(&digest{})[0])
		if err != nil {
			t.Fatal(err)
		}
		if first := m.removal != nil; first != (i < removalsFirst) {
			t.Fatalf("%d removals: first is %t", i+1, first)
		}
	}
}

func TestRemovalsOfAnEarlierStart(t *testing.T) {
	msg := removalOf(t, newReplica(t, "a", 1), "b", 3)
	parsed, err := ParseRemoval(msg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Self: "c", PrivateKey: testKey("c"), Epoch: 1, Keyring: newRing("a"), Removals: []Removal{parsed}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Removal("b", keyOf("b")); !ok {
		t.Fatal("forgotten")
	}
	if fresh, _ := merge(t, c, msg); fresh {
		t.Fatal("a recorded removal is news")
	}
	if _, err := ParseRemoval(publish(t, c, rule("p"), Live, "")[0]); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}

// quarrel is what members say of each other, with what they publish.
func quarrel(t *rapid.T) [][]byte {
	ids := []string{"a", "b", "c"}
	var msgs [][]byte
	for _, id := range ids {
		r, err := New(Options{Self: id, PrivateKey: testKey(id), Epoch: 1, Keyring: newRing()})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []Key{{KindCluster, id}, rule("p")} {
			m, err := r.Publish(key, Live, []byte(id))
			if err != nil {
				t.Fatal(err)
			}
			msgs = append(msgs, m...)
		}
		for _, target := range ids {
			for range rapid.IntRange(0, 2).Draw(t, "removals") {
				msgs = append(msgs, removalOf(t, r, target, rapid.Int64Range(0, 3).Draw(t, "time")))
			}
		}
	}
	return msgs
}

func TestRemovalsMergeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := quarrel(t)
		var first *Replica
		for range 3 {
			x, err := New(Options{Self: "x", PrivateKey: testKey("x"), Epoch: 1, Keyring: newRing("a", "b", "c")})
			if err != nil {
				t.Fatal(err)
			}
			for _, msg := range shuffled(t, msgs, "order") {
				if _, _, err := x.Merge(msg, "y"); err != nil && !errors.Is(err, ErrUnknownOrigin) && !errors.Is(err, ErrRemoved) {
					t.Fatal(err)
				}
			}
			checkInvariants(t, x.state)
			if first == nil {
				first = x
				continue
			}
			if diff := cmp.Diff(first.Removals(), x.Removals(), cmp.AllowUnexported(Removal{}), cmpopts.IgnoreFields(Removal{}, "Voucher", "Introducer")); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff(contents(first.state), contents(x.state)); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
