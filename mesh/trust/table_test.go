// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testKeys are few, so that collisions occur.
func testKeys(n int) []ed25519.PublicKey {
	keys := make([]ed25519.PublicKey, n)
	for i := range keys {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i)
		keys[i] = ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	}
	return keys
}

// TestTrustLaws: whatever is pinned and introduced, in any order, a clusterID
// keeps its first key, a key has one clusterID, a swap is never weakened to an
// introduction, repeating changes nothing, and the callback saw every change.
func TestTrustLaws(t *testing.T) {
	keys := testKeys(4)
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]Pin{}
		trust := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Pinned: func(p Pin) { seen[p.ClusterID] = p }})
		first := map[string]ed25519.PublicKey{"self": keys[0]}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"self", "a", "b", "c"}).Draw(t, "id")
			key := rapid.SampledFrom(keys).Draw(t, "key")
			swap := rapid.Bool().Draw(t, "swap")
			pin := func() error {
				if swap {
					return trust.Pin(id, key)
				}
				return trust.Introduce(id, key, "someone")
			}
			err := pin()
			held, ok := first[id]
			switch {
			case ok && !held.Equal(key):
				if !errors.Is(err, ErrPinned) {
					t.Fatalf("another key for %s: %v", id, err)
				}
			case err == nil && !ok:
				first[id] = key
			}
			before := trust.Pins()
			if again := pin(); !errors.Is(again, err) {
				t.Fatalf("first %v, again %v", err, again)
			}
			if !slices.EqualFunc(before, trust.Pins(), equalPins) {
				t.Fatal("repeating changed the table")
			}
			if p, ok := seen[id]; err == nil && swap && id != "self" && (!ok || p.Introducer != "") {
				t.Fatalf("a swap is recorded as %+v", p)
			}
		}
		for id, key := range first {
			if got, ok := trust.Key(id); !ok || !got.Equal(key) {
				t.Fatalf("%s lost its first key", id)
			}
			if owner, ok := trust.ClusterID(key); !ok || owner != id {
				t.Fatalf("the key of %s belongs to %q", id, owner)
			}
		}
		pins := map[string]Pin{}
		for _, p := range trust.Pins() {
			pins[p.ClusterID] = p
		}
		if !maps.EqualFunc(pins, seen, equalPins) {
			t.Fatalf("callback saw %v, table has %v", seen, pins)
		}
	})
}

func equalPins(a, b Pin) bool {
	return a.ClusterID == b.ClusterID && a.Introducer == b.Introducer && a.PublicKey.Equal(b.PublicKey)
}

func TestTrustBounds(t *testing.T) {
	trust := New(Pin{ClusterID: "self", PublicKey: testKeys(1)[0]}, Options{})
	for i := range MaxPins - 1 {
		if err := trust.Introduce(fmt.Sprintf("c%d", i), someKey(i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := trust.Introduce("more", someKey(MaxPins), "x"); !errors.Is(err, ErrFull) {
		t.Errorf("introduction into a full table: %v", err)
	}
	if err := trust.Pin("more", someKey(MaxPins)); err != nil {
		t.Errorf("swap with a full table: %v", err)
	}
	for _, id := range []string{"", "a/b", "a b", "a\n", strings.Repeat("x", maxIDLength+1), "ä"} {
		if err := trust.Pin(id, someKey(MaxPins+1)); !errors.Is(err, ErrInvalidPin) {
			t.Errorf("clusterID %q: %v", id, err)
		}
	}
	if err := trust.Pin("short", someKey(0)[:31]); !errors.Is(err, ErrInvalidPin) {
		t.Errorf("short key: %v", err)
	}
}

// TestRemovedKeyStaysOut: whatever is pinned, introduced, forgotten and removed, in any order, a removed key is not
// pinned for its cluster, a removal ends no other pin but that of
// an introduced cluster whose other key it is, and its own cluster keeps its own.
func TestRemovedKeyStaysOut(t *testing.T) {
	keys := testKeys(4)
	rapid.Check(t, func(t *rapid.T) {
		trust := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
		removed := map[string]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"self", "a", "b", "c"}).Draw(t, "id")
			key := rapid.SampledFrom(keys).Draw(t, "key")
			before, had := trust.Key(id)
			swapped := trust.Swapped(id)
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				err = trust.Pin(id, key)
			case 1:
				err = trust.Introduce(id, key, "someone")
			case 2:
				trust.Forget(id)
			case 3:
				pins := len(trust.Pins())
				trust.Remove(id, key, nil, false)
				removed[id+string(key)] = true
				ends := had && id != "self" && (before.Equal(key) || !swapped)
				if ends && trust.IsPeer(id) || !ends && len(trust.Pins()) != pins {
					t.Fatalf("%s is still a peer, or another one is not", id)
				}
			}
			if removed[id+string(key)] && err != nil && !errors.Is(err, ErrRemoved) {
				t.Fatal(err)
			}
			if held, ok := trust.Key("self"); !ok || !held.Equal(keys[0]) {
				t.Fatal("its own key is gone")
			}
			for _, pin := range trust.Pins() {
				if removed[pin.ClusterID+string(pin.PublicKey)] || !trust.IsPeer(pin.ClusterID) {
					t.Fatalf("%s has a removed key", pin.ClusterID)
				}
			}
		}
	})
}
