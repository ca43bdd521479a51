// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestVersionIsOfChanges: whatever is said, the version is another one exactly if a pin is, or on whose word it is. So a flood of
// statements about clusters that nobody knows has nobody look at who admitted whom.
func TestVersionIsOfChanges(t *testing.T) {
	keys := testKeys(6)
	ids := []string{"a", "b", "c", "d"}
	type view struct {
		pins  []Pin
		words [][]Word
	}
	rapid.Check(t, func(t *rapid.T) {
		table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{{ClusterID: "a"}}})
		look := func() (v view) {
			v.pins = table.Pins()
			for _, id := range ids {
				v.words = append(v.words, table.Words(id))
			}
			return v
		}
		id, key := rapid.SampledFrom(ids), rapid.SampledFrom(keys[1:])
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before, version := look(), table.Version()
			one, other, k := id.Draw(t, "id"), id.Draw(t, "other"), key.Draw(t, "key")
			switch what := rapid.SampledFrom([]string{"pin", "introduce", "admit", "withdraw", "remove", "forget", "vouch", "keep", "approve", "signs", "recall"}).Draw(t, "what"); what {
			case "pin":
				_ = table.Pin(one, k)
			case "introduce":
				_ = table.Introduce(one, k, other)
			case "admit":
				via := rapid.SampledFrom(append([]string{""}, ids...)).Draw(t, "via")
				table.Admit(Admission{Author: other, ClusterID: one, PublicKey: k, Via: via})
			case "withdraw":
				table.Withdraw(other, one)
			case "remove":
				table.Remove(one, k, nil, rapid.Bool().Draw(t, "left"))
			case "forget":
				table.Forget(one)
			case "vouch":
				table.Vouch([]string{one, other})
			case "keep":
				table.Keep([]string{one})
			case "approve":
				table.Approve([]Name{{ClusterID: one, Fingerprint: Fingerprint(k)}})
			case "signs":
				table.Signs(one, rapid.Bool().Draw(t, "does"))
			case "recall":
				table.Recall(one, k, rapid.Bool().Draw(t, "admitted"))
			}
			if same := reflect.DeepEqual(before, look()); same != (table.Version() == version) {
				t.Fatalf("the same: %t, and the version was %d and is %d", same, version, table.Version())
			}
		}
	})
}

// TestFloodChangesNoVersion is about statements that change no pin.
func TestFloodChangesNoVersion(t *testing.T) {
	keys := testKeys(4)
	table := with(t, keys, Options{})
	version := table.Version()
	for range 100 {
		table.Remove("nobody", keys[3], nil, false)
		table.Admit(Admission{Author: "m", ClusterID: "ghost", PublicKey: ed25519.PublicKey(keys[3])})
		table.Withdraw("m", "ghost")
		_ = table.Introduce("a", keys[2], "m")
	}
	if now := table.Version(); now != version {
		t.Errorf("the version was %d and is %d", version, now)
	}
}
