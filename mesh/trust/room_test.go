// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
)

// someKey is a key that nobody can sign with.
func someKey(i int) ed25519.PublicKey {
	key := make(ed25519.PublicKey, ed25519.PublicKeySize)
	copy(key, fmt.Sprint("key ", i))
	return key
}

// TestInventionsLeaveRoomForPins: a member that invents clusters, side by side, below each other, or by way of members that it has
// leave, takes half of the pins at most, and those that others admit find room, also those of a member that it admitted before.
func TestInventionsLeaveRoomForPins(t *testing.T) {
	for name, by := range map[string]func(i int) string{
		"side by side": func(int) string { return "bad" },
		"a chain":      func(i int) string { return fmt.Sprint("x", max(0, i-1)) },
		"who leaves": func(i int) string {
			if i%10 == 0 {
				return "bad"
			}
			return fmt.Sprint("x", i/10*10)
		},
	} {
		table := New(Pin{ClusterID: "self", PublicKey: someKey(-1)}, Options{})
		key := 0
		introduce := func(id, by string) error {
			key++
			return table.Introduce(id, someKey(key), by)
		}
		if err := errors.Join(table.Pin("hub", someKey(-2)), introduce("bad", "hub"), introduce("honest", "hub"), introduce("x0", "bad")); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < MaxPins; i++ {
			if !table.IsPeer(by(i)) {
				continue // there was no room for it
			}
			if err := introduce(fmt.Sprint("x", i), by(i)); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			if name == "who leaves" && i%10 == 9 {
				at := i / 10 * 10
				if k, ok := table.Key(fmt.Sprint("x", at)); ok {
					table.Remove(fmt.Sprint("x", at), k, nil, true)
				}
			}
		}
		if n := table.graph.branchesNow().size["bad"]; n > MaxPins/2+1 || n < MaxPins/2-10 {
			t.Errorf("%s: %d are pinned", name, n)
		}
		for i := range 200 {
			for _, by := range []string{"hub", "honest"} {
				if err := introduce(fmt.Sprint(by, i), by); err != nil {
					t.Fatalf("%s: %d of %s: %v", name, i, by, err)
				}
			}
		}
	}
}
