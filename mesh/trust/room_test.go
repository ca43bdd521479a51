// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
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
		if n := table.graph.branchesNow().Size["bad"]; n > MaxPins/2+1 || n < MaxPins/2-10 {
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

// TestWhoLeavesLeavesNoRoom: what a member has invented stays below it when it leaves, and has no more room than it had.
func TestWhoLeavesLeavesNoRoom(t *testing.T) {
	table := New(Pin{ClusterID: "self", PublicKey: someKey(-1)}, Options{})
	if err := errors.Join(table.Pin("hub", someKey(-2)), table.Introduce("bad", someKey(-3), "hub"), table.Introduce("honest", someKey(-4), "hub")); err != nil {
		t.Fatal(err)
	}
	parents := map[string]string{"hub": "self", "bad": "hub", "honest": "hub"}
	invented := 0
	invent := func(by func(i int) string) {
		for i := range MaxPins {
			id := fmt.Sprint("x", invented)
			if table.Introduce(id, someKey(invented), by(i)) != nil {
				continue
			}
			invented++
		}
	}
	invent(func(int) string { return "bad" })
	had := invented
	for i := range invented {
		parents[fmt.Sprint("x", i)] = "bad"
	}
	table.Arrange(parents)
	table.Remove("bad", someKey(-3), nil, true)
	invent(func(i int) string { return fmt.Sprint("x", i%had) })
	if invented > had+1 || had < MaxPins/2-10 {
		t.Errorf("%d are invented by who has left, which had %d", invented, had)
	}
	if err := table.Introduce("new", someKey(MaxPins), "honest"); err != nil {
		t.Error(err)
	}
}

// TestWordsInCommon: of too many words there is left that of who all of them lead through.
func TestWordsInCommon(t *testing.T) {
	table := New(Pin{ClusterID: "self", PublicKey: someKey(-1)}, Options{})
	err := errors.Join(table.Pin("hub", someKey(-2)), table.Introduce("bad", someKey(-3), "hub"))
	key := func(id string, i int) int { return map[string]int{"w": 100, "x": 200}[id] + i }
	for i := range maxPast + 1 {
		w, x := fmt.Sprint("w", i), fmt.Sprint("x", i)
		err = errors.Join(err, table.Introduce(w, someKey(key("w", i)), "bad"), table.Introduce(x, someKey(key("x", i)), w))
		table.Admit(Admission{Author: x, ClusterID: "y", PublicKey: someKey(1)})
	}
	if err := errors.Join(err, table.Introduce("y", someKey(1), "x0")); err != nil {
		t.Fatal(err)
	}
	end := func(id string, i int) {
		table.Remove(fmt.Sprint(id, i), someKey(key(id, i)), nil, true)
		table.Withdraw(fmt.Sprint(id, i), "y")
	}
	for i := range maxPast + 1 {
		end("x", i)
	}
	if got := table.Words("y"); !slices.Equal(got, []Word{{Author: "bad"}}) {
		t.Errorf("y is a member on the word of %v", got)
	}
	table.Remove("bad", someKey(-3), nil, true)
	if got := table.Words("y"); !slices.Equal(got, []Word{{Author: "hub", For: "bad"}}) {
		t.Errorf("y is a member on the word of %v", got)
	}
}
