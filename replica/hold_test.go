// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/replica/removalguard"
)

// holding returns a replica that holds each removal, but those by authors in let.
func holding(t fatal, let map[string]bool, known ...string) *Replica {
	r, err := New(Options{Self: "c", PrivateKey: testKey("c"), Epoch: 1, Keyring: newRing(known...), Hold: func(r Removal) removalguard.Standing {
		return removalguard.Standing{Held: !let[r.By]}
	}})
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	return r
}

// TestHeldRemovalEndsNothing: what is held is kept and passed on, and the cluster goes on as before. Another member's statement about
// the same key is asked about, too, whatever its hash; so is the held one again.
func TestHeldRemovalEndsNothing(t *testing.T) {
	for at := range int64(8) { // of two statements either has the smaller hash
		let := map[string]bool{}
		c, b := holding(t, let, "a", "b", "d"), newReplica(t, "b", 5)
		merge(t, c, slices.Concat(publish(t, b, Key{KindCluster, "b"}, Live, "spec"), publish(t, b, rule("p"), Live, "1"), b.Complete())...)
		if fresh, _ := merge(t, c, removalOf(t, newReplica(t, "a", 1), "b", at)); !fresh {
			t.Fatal("it is not passed on")
		}
		held, ok := c.Removal("b", keyOf("b"))
		if _, pinned := c.keyring.Key("b"); !ok || !held.Standing.Held || !pinned || len(c.Entries(KindRule)) != 1 {
			t.Fatalf("held: %+v, pinned: %t", held.Standing, pinned)
		}
		merge(t, c, publish(t, b, rule("q"), Live, "2")...)
		other := holding(t, let, "a", "b")
		pullFrom(t, other, c)
		if got := removedIDs(other); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("another one hears of %v", got)
		}
		again, err := New(Options{Self: "c", PrivateKey: testKey("c"), Epoch: 2, Keyring: newRing("a", "b"), Removals: c.Removals()})
		if got, _ := again.Removal("b", keyOf("b")); err != nil || !got.Standing.Held {
			t.Fatalf("after a restart: %+v, %v", got.Standing, err)
		}
		c.Reconsider("b", keyOf("b"))
		if len(c.Entries(KindRule)) != 2 {
			t.Fatal("nobody let it")
		}
		if at%2 == 0 {
			let["d"] = true
			if fresh, _ := merge(t, c, removalOf(t, newReplica(t, "d", 1), "b", at)); !fresh {
				t.Fatal("what ends a membership here is not passed on")
			}
		} else {
			let["a"] = true
			c.Reconsider("b", keyOf("b"))
		}
		held, _ = c.Removal("b", keyOf("b"))
		if _, pinned := c.keyring.Key("b"); held.Standing.Held || pinned || len(c.Entries(KindRule)) != 0 {
			t.Fatalf("then held: %+v, pinned: %t", held.Standing, pinned)
		}
	}
}

// TestHeldRemovalsConverge: whatever is held where, and in whatever order statements come, members hold the same ones, and once
// nothing is held any more they have pinned the same keys.
func TestHeldRemovalsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := quarrel(t)
		var first *Replica
		for range 3 {
			let := map[string]bool{}
			for _, id := range []string{"a", "b", "c"} {
				let[id] = rapid.Bool().Draw(t, "let")
			}
			x := holding(t, let, "a", "b", "x", "d")
			x.self = "z"
			for _, msg := range shuffled(t, msgs, "order") {
				if _, _, err := x.Merge(msg, "y"); err != nil && !errors.Is(err, ErrUnknownOrigin) && !errors.Is(err, ErrRemoved) {
					t.Fatal(err)
				}
			}
			for _, id := range []string{"a", "b", "c"} {
				let[id] = true
			}
			for _, r := range x.Removals() {
				x.Reconsider(r.ClusterID, r.PublicKey)
			}
			if first == nil {
				first = x
				continue
			}
			if a, b := first.state.removals.digest(), x.state.removals.digest(); *a != *b {
				t.Fatal("they hold other statements")
			}
			for _, id := range []string{"a", "b", "c"} {
				one, _ := first.keyring.Key(id)
				other, _ := x.keyring.Key(id)
				if !bytes.Equal(one, other) {
					t.Fatalf("%s is pinned in one only", id)
				}
			}
		}
	})
}

// TestRemovingAPinnedKeyFindsRoom: a member has invented clusters and let them go, thousands, and goes on as long as it can, by way of
// what it invented, too. Whoever is introduced can be removed nevertheless, and so can it; and others introduce as before, also after a
// restart.
func TestRemovingAPinnedKeyFindsRoom(t *testing.T) {
	keys := newRing("a")
	var members []*Replica
	introduced := func(by, id string) (left []byte, err error) {
		seed := sha256.Sum256(fmt.Append(nil, id))
		y, err := New(Options{Self: id, PrivateKey: testKey(string(seed[:])), Epoch: 1, Keyring: newRing()})
		if err != nil {
			t.Fatal(err)
		}
		leave, err := y.SignLeave(nil, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		cluster := publish(t, y, Key{KindCluster, id}, Live, "{}")[0]
		for _, r := range members {
			_, _, merged := r.Merge(cluster, by)
			err = errors.Join(err, merged)
		}
		return leave.Message(), err
	}
	options := Options{Self: "c", PrivateKey: testKey("c"), Epoch: 1, Keyring: keys, Parent: func(id string) string {
		if _, member := keys.Key(id); !member {
			return "" // an agent forgets who led to nobody
		}
		return keys.parent("c")(id)
	}}
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	members = []*Replica{c}
	for _, id := range []string{"m", "honest"} {
		if err := keys.Introduce(id, keyOf(id), "a"); err != nil {
			t.Fatal(err)
		}
	}
	const invented = 200
	for i := range maxRemovals*16/25 - invented { // a may have four fifths, and m as much of that
		id := fmt.Sprint("made-up", i)
		c.state.removals.put(signedAs(t, Removal{ClusterID: id, PublicKey: keyOf("x"), By: "m"}))
	}
	refused, by, leaves := 0, "m", []byte(nil)
	for i := 0; refused < 8 && i < 3*maxRemovals; i++ {
		id := fmt.Sprint("invented", i)
		left, err := introduced(by, id)
		switch {
		case errors.Is(err, ErrFull):
			refused++
			by = "m"
		case err != nil:
			t.Fatal(err)
		case i%10 == 0: // it stays a while, and invents the next ones
			if leaves != nil {
				merge(t, c, leaves)
			}
			by, leaves = id, left
		default:
			if _, _, err := c.Merge(left, "m"); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
	}
	if n := len(c.Removals()); refused < 8 || n > maxRemovals*16/25 {
		t.Fatalf("%d are held, and %d inventions were refused", n, refused)
	}
	options.Removals, options.Epoch = c.Removals(), 2
	again, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	members = []*Replica{c, again}
	for i := range 100 {
		if _, err := introduced("honest", fmt.Sprint("newcomer", i)); err != nil {
			t.Fatalf("the honest one introduces %d: %v", i, err)
		}
	}
	if _, err := introduced("m", "more"); !errors.Is(err, ErrFull) {
		t.Errorf("after a restart: %v", err)
	}
	for _, id := range []string{"honest", "m"} {
		if fresh, _ := merge(t, c, removalOf(t, newReplica(t, "a", 1), id, 0)); !fresh {
			t.Errorf("%s cannot be removed", id)
		}
	}
}

func signedAs(t *testing.T, r Removal) *removalRecord {
	t.Helper()
	signed, err := signRemoval(testKey(r.By), r)
	if err != nil {
		t.Fatal(err)
	}
	signed.sponsor = string(signed.ByKey)
	return signed
}

// TestHeldRemovalIsAskedAboutOnce: copies of what is held cost nothing, but of the removal of this cluster itself, which others may have
// come to refuse. Reconsider asks again.
func TestHeldRemovalIsAskedAboutOnce(t *testing.T) {
	asked := map[string]int{}
	c, err := New(Options{Self: "c", PrivateKey: testKey("c"), Epoch: 1, Keyring: newRing("a", "b"), Hold: func(r Removal) removalguard.Standing {
		asked[r.ClusterID]++
		return removalguard.Standing{Held: true}
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := newReplica(t, "a", 1)
	for range 3 {
		for _, id := range []string{"b", "c"} {
			merge(t, c, removalOf(t, a, id, 0))
		}
	}
	if asked["b"] != 1 || asked["c"] != 3 {
		t.Errorf("asked about each so often: %v", asked)
	}
	if c.Reconsider("b", keyOf("b")); asked["b"] != 2 {
		t.Errorf("it is asked about %d times", asked["b"])
	}
}
