// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
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
		trust := NewTrust(Pin{ClusterID: "self", PublicKey: keys[0]}, func(p Pin) { seen[p.ClusterID] = p })
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
	trust := NewTrust(Pin{ClusterID: "self", PublicKey: testKeys(1)[0]}, nil)
	key := func(i int) ed25519.PublicKey {
		k := make(ed25519.PublicKey, ed25519.PublicKeySize)
		copy(k, fmt.Sprintf("key %d", i))
		return k
	}
	for i := range maxPins - 1 {
		if err := trust.Introduce(fmt.Sprintf("c%d", i), key(i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := trust.Introduce("more", key(maxPins), "x"); !errors.Is(err, ErrTrustFull) {
		t.Errorf("introduction into a full table: %v", err)
	}
	if err := trust.Pin("more", key(maxPins)); err != nil {
		t.Errorf("swap with a full table: %v", err)
	}
	for _, id := range []string{"", "a/b", "a b", "a\n", strings.Repeat("x", maxIDLength+1), "ä"} {
		if err := trust.Pin(id, key(maxPins+1)); !errors.Is(err, ErrInvalidPin) {
			t.Errorf("clusterID %q: %v", id, err)
		}
	}
	if err := trust.Pin("short", key(0)[:31]); !errors.Is(err, ErrInvalidPin) {
		t.Errorf("short key: %v", err)
	}
}

func TestPrivateKey(t *testing.T) {
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := MarshalPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParsePrivateKey(data)
	if err != nil || !parsed.Equal(key) {
		t.Fatalf("parsed %v", err)
	}
	for _, bad := range []string{"", "x", string(data[:40]), strings.Replace(string(data), "MC", "MD", 1), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParsePrivateKey([]byte(bad)); !errors.Is(err, ErrPrivateKey) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	identity := Identity{"me", key}
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "identity", identity)
	fmt.Fprintf(&out, "%v %+v %#v %s", identity, identity, identity, identity)
	start := fmt.Sprintf("%d %d %d", key[0], key[1], key[2]) // as %v prints bytes
	if strings.Contains(out.String(), start) || !strings.Contains(out.String(), "me") || strings.Contains(out.String(), "PrivateKey") {
		t.Errorf("an identity prints as %s", out.String())
	}
}
