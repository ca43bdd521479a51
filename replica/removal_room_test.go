// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
)

func TestRemovalsFloodIsBounded(t *testing.T) {
	c := newReplica(t, "c", 1, "a", "b", "d")
	var err error
	for i := range maxRemovalsBy + 1 {
		key := sha256.Sum256(fmt.Append(nil, i))
		var r *removalRecord
		if r, err = signRemoval(testKey("a"), Removal{ClusterID: fmt.Sprint("junk", i), PublicKey: key[:], By: "a"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err = c.Merge(r.msg, ""); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || len(c.Removals()) != maxRemovalsBy {
		t.Fatalf("%d are held: %v", len(c.Removals()), err)
	}
	merge(t, c, removalOf(t, newReplica(t, "b", 1), "a", 0)) // who floods can still be removed
	if got := c.state.removals.by.Sponsored(string(keyOf("b"))); got != 1 {
		t.Fatal(got)
	}
}

// junkRemoval is a removal, in by's name and signed by a key that is made up, of a key that nobody has.
func junkRemoval(t fatal, by, author string, i int) []byte {
	key := sha256.Sum256(fmt.Append(nil, i))
	r, err := signRemoval(testKey(author), Removal{ClusterID: fmt.Sprint("junk", i), PublicKey: key[:], By: by})
	if err != nil {
		t.Fatalf("sign removal: %v", err)
	}
	return r.msg
}

// What a peer vouches for in our own name, signed by another key, is bounded as what is in anybody's name.
func TestRemovalsInOurNameAreBounded(t *testing.T) {
	c := newReplica(t, "c", 1, "a")
	var err error
	for i := 0; i <= maxRemovalsBy && err == nil; i++ {
		_, _, err = c.Merge(junkRemoval(t, "c", "x", i), "a")
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("%d are held: %v", len(c.Removals()), err)
	}
	r, err := c.SignRemoval("a", keyOf("a"), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if fresh, _ := merge(t, c, r.Message()); !fresh {
		t.Fatal("our own removal is not taken")
	}
}

// A member may fill the set to its last bound, with clusters that it introduced first: what is ordered here counts
// here nevertheless, or nobody could be kept out any more.
func TestOwnRemovalNeedsNoRoom(t *testing.T) {
	c := newReplica(t, "c", 1, "b")
	if err := c.keyring.Introduce("a", keyOf("a"), "b"); err != nil { // one that was swapped is never refused
		t.Fatal(err)
	}
	x, y := keyOf("x"), keyOf("y")
	for i := range allRemovals {
		id := fmt.Sprint("made-up", i)
		c.state.removals.put(&removalRecord{Removal: Removal{ClusterID: id, PublicKey: x, By: id, ByKey: y}})
	}
	if _, _, err := c.Merge(removalOf(t, newReplica(t, "b", 1), "a", 0), ""); !errors.Is(err, ErrFull) {
		t.Fatal("not full:", err)
	}
	if fresh, _ := merge(t, c, removalOf(t, c, "a", 0)); !fresh {
		t.Fatal("our own removal is not taken")
	}
	if _, pinned := c.keyring.Key("a"); pinned {
		t.Fatal("it is a member still")
	}
}

// One member that makes up authors answers for what it brings, and cannot keep anybody from being removed.
func TestVoucherAnswersForAuthorsItMadeUp(t *testing.T) {
	c := newReplica(t, "c", 1, "a", "b", "d")
	refused := 0
	for i := range 3 * maxRemovalsBy {
		by := fmt.Sprint("x", i%5)
		if _, _, err := c.Merge(junkRemoval(t, by, by, i), "a"); errors.Is(err, ErrFull) {
			refused++
		}
	}
	if got := len(c.Removals()); got != maxRemovalsBy || refused != 2*maxRemovalsBy {
		t.Fatalf("%d are held and %d refused", got, refused)
	}
	if fresh, _ := merge(t, c, junkRemoval(t, "b", "b", 1<<20)); !fresh {
		t.Fatal("another member's removal is refused")
	}
	// Whatever is held by then, the removal of a key that a person had pinned is not refused, and what another member says finds room.
	for i, by := range []string{"y", "z", "w"} {
		_ = c.keyring.Introduce(by, keyOf(by), "a")
		for n := range maxRemovalsBy {
			_, _, _ = c.Merge(junkRemoval(t, by, by, (i+4)*maxRemovalsBy+n), "")
		}
	}
	if _, _, err := c.Merge(junkRemoval(t, "w", "w", 1<<21), ""); !errors.Is(err, ErrFull) {
		t.Fatalf("%d are held: %v", len(c.Removals()), err)
	}
	if fresh, _ := merge(t, c, junkRemoval(t, "d", "d", 1<<22)); !fresh {
		t.Fatal("what another member says is refused")
	}
	if fresh, _ := merge(t, c, removalOf(t, newReplica(t, "w", 1), "d", 0)); !fresh { // by one that has used up its share
		t.Fatal("a swapped key cannot be removed")
	}
}

// One member may remove more members that others introduced than it may remove keys that nobody has.
func TestManyInventionsAreRemovedByOne(t *testing.T) {
	c := newReplica(t, "c", 1, "a", "b")
	for i := range maxRemovalsBy + 952 {
		id := fmt.Sprint("invented", i)
		key := sha256.Sum256([]byte(id))
		if err := c.keyring.Introduce(id, key[:], "a"); err != nil {
			t.Fatal(err)
		}
		r, err := signRemoval(testKey("b"), Removal{ClusterID: id, PublicKey: key[:], By: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Merge(r.msg, ""); err != nil {
			t.Fatal(i, err)
		}
	}
}

// A restart does not forget how many removals by unknown authors a member has brought.
func TestVouchersOutliveARestart(t *testing.T) {
	c := newReplica(t, "c", 1, "a")
	for i := range maxRemovalsBy {
		by := fmt.Sprint("x", i%5)
		if _, _, err := c.Merge(junkRemoval(t, by, by, i), "a"); err != nil {
			t.Fatal(err)
		}
	}
	again, err := New(Options{Self: "c", PrivateKey: testKey("c"), Epoch: 2, Keyring: newRing("a"), Removals: c.Removals()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Replica{c, again} {
		if _, _, err := r.Merge(junkRemoval(t, "y", "y", 1<<20), "a"); !errors.Is(err, ErrFull) {
			t.Errorf("one more of the same member: %v", err)
		}
	}
}

// A set that is full still agrees on who removed a key.
func TestFullSetTakesTheSmallerHash(t *testing.T) {
	c := newReplica(t, "c", 1, "a")
	about := junkRemoval(t, "x", "x", 0)
	other := junkRemoval(t, "y", "y", 0)
	if first, _ := decodeMessage(about); bytes.Compare(first.removal.hash[:], func() []byte { m, _ := decodeMessage(other); return m.removal.hash[:] }()) < 0 {
		about, other = other, about
	}
	full := false
	for i, msg := 0, about; !full; msg = junkRemoval(t, "x", "x", i) {
		_, _, err := c.Merge(msg, fmt.Sprint("a", i/maxRemovalsBy))
		if full = errors.Is(err, ErrFull); err != nil && (!full || i < maxRemovals/2) {
			t.Fatal(i, err)
		}
		i++
	}
	if fresh, _, err := c.Merge(other, "a9"); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
}
