// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
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
