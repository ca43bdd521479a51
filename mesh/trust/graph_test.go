// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// with returns a table where a person has pinned m, who then introduced a with the first key.
func with(t *testing.T, keys []ed25519.PublicKey, o Options) *Table {
	t.Helper()
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, o)
	if err := errors.Join(table.Pin("m", keys[1]), table.Introduce("a", keys[2], "m")); err != nil {
		t.Fatal(err)
	}
	return table
}

// admitted is an error unless a person or an authority had admitted a key of a.
func admitted(table *Table, key ed25519.PublicKey) error {
	if admitted, had := table.Had("a", key); !admitted || !had {
		return fmt.Errorf("it was pinned: %t, and admitted: %t", had, admitted)
	}
	return nil
}

// waits lists the fingerprints of the newcomers.
func waits(table *Table) (out []string) {
	for _, n := range table.Newcomers() {
		out = append(out, n.ClusterID+" by "+n.Introducer)
	}
	return out
}

// TestTakeover: who removes a cluster does not become it, whoever introduces the new key, and whatever was left or
// removed in its name besides.
func TestTakeover(t *testing.T) {
	keys := testKeys(8)
	var told []Newcomer
	table := with(t, keys, Options{Waits: func(n Newcomer) { told = append(told, n) }})
	if table.Remove("a", keys[4], keys[3], true) { // of a key that it made up
		t.Fatal("anybody can say that a cluster left")
	}
	if err := table.Introduce("a", keys[3], "m"); !errors.Is(err, ErrPinned) {
		t.Fatal("and who is next:", err)
	}
	if !table.Remove("a", keys[2], nil, false) {
		t.Fatal("no pin ended")
	}
	for range 2 {
		if err := table.Introduce("a", keys[3], "m"); !errors.Is(err, ErrReserved) {
			t.Fatalf("the remover is a now: %v", err)
		}
	}
	table.Remove("a", keys[5], keys[3], true) // of another one
	if _, pinned := table.Key("a"); pinned || !slices.Equal(waits(table), []string{"a by m"}) || len(told) != 1 {
		t.Fatalf("pinned %t, waiting %v, told %v", pinned, waits(table), told)
	}
	if err := table.Introduce("a", keys[2], "m"); !errors.Is(err, ErrRemoved) {
		t.Fatal(err)
	}
	// A person decides: by approval of the key, and by no other.
	table.Approve([]Name{{"a", Fingerprint(keys[6])}})
	if _, pinned := table.Key("a"); pinned {
		t.Fatal("another key was approved")
	}
	table.Approve([]Name{{"a", Fingerprint(keys[3])}})
	if key, _ := table.Key("a"); !key.Equal(keys[3]) || len(table.Newcomers()) != 0 || !table.Swapped("a") {
		t.Fatal("what a person approves is not pinned")
	}
	// From there on its own leave says who is next.
	table.Remove("a", keys[3], keys[6], true)
	if err := table.Introduce("a", keys[7], "m"); !errors.Is(err, ErrReserved) {
		t.Fatal(err)
	}
	if err := table.Introduce("a", keys[6], "m"); err != nil {
		t.Fatal("its successor:", err)
	}
	table.Remove("a", keys[3], nil, false)
	if _, pinned := table.Key("a"); pinned {
		t.Fatal("a key of the line was removed by another, and the successor stays")
	}
}

// TestALeaveNamesTheSuccessor: of a cluster that was introduced and left, the one it named is next, and nobody else; unless
// a member removes any key of it.
func TestALeaveNamesTheSuccessor(t *testing.T) {
	keys := testKeys(7)
	table := with(t, keys, Options{})
	table.Remove("a", keys[3], keys[4], true) // made up
	table.Remove("a", keys[2], keys[5], true)
	table.Remove("a", keys[5], keys[6], true) // before it was here
	for _, key := range []ed25519.PublicKey{keys[4], keys[1]} {
		if err := table.Introduce("a", key, "m"); err == nil {
			t.Fatal("another one is next")
		}
	}
	if err := table.Introduce("a", keys[6], "m"); err != nil {
		t.Fatal("the successor of the successor:", err)
	}
	if !table.Remove("a", keys[3], nil, false) {
		t.Error("a member has removed a key, and the successor stays")
	}
}

// TestALateRemovalEndsThePin: who hears of the removal after the introduction is where it would have been.
func TestALateRemovalEndsThePin(t *testing.T) {
	keys := testKeys(4)
	for name, stays := range map[string]func(*Table) error{
		"introduced": nil,
		"swapped":    func(t *Table) error { return t.Pin("a", keys[2]) },
		"approved":   func(t *Table) error { t.Approve([]Name{{"a", Fingerprint(keys[2])}}); return nil },
		"recorded": func(t *Table) error {
			return t.Restore(Pin{ClusterID: "a", PublicKey: keys[2], Introducer: "m", Admitted: true})
		},
	} {
		table := with(t, keys, Options{})
		if stays != nil {
			if err := stays(table); err != nil {
				t.Fatal(err)
			}
		}
		ended := table.Remove("a", keys[3], nil, false)
		if _, pinned := table.Key("a"); pinned != (stays != nil) || ended == pinned || pinned == (len(table.Newcomers()) > 0) {
			t.Errorf("%s: pinned %t, ended %t, waiting %v", name, pinned, ended, waits(table))
		}
	}
}

// TestAuthorities: a member that is named admits; one with another key than the one that is named does not.
func TestAuthorities(t *testing.T) {
	keys := testKeys(5)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{{"m", Fingerprint(keys[1])}, {"x", Fingerprint(keys[1])}, {"nobody", ""}}})
	for id, key := range map[string]ed25519.PublicKey{"m": keys[1], "x": keys[2]} {
		if err := table.Pin(id, key); err != nil {
			t.Fatal(err)
		}
	}
	if got := table.Strangers(); !slices.Equal(got, []Name{{"x", Fingerprint(keys[1])}, {"nobody", ""}}) {
		t.Errorf("name nobody: %v", got)
	}
	table.Remove("a", keys[3], nil, false)
	if err := table.Introduce("a", keys[4], "x"); !errors.Is(err, ErrReserved) {
		t.Fatal(err)
	}
	if err := table.Introduce("a", keys[4], "m"); err != nil {
		t.Fatal(err)
	}
	if len(table.Newcomers()) != 0 || table.Swapped("a") || admitted(table, keys[4]) != nil {
		t.Error("it waits, or counts as swapped")
	}
}

// TestAnIntroducedAuthority: any member may introduce a clusterID that is not pinned yet, so an authority that was introduced
// counts only under the key that is named.
func TestAnIntroducedAuthority(t *testing.T) {
	keys := testKeys(6)
	for name, authority := range map[string]Name{"bare": {"hub", ""}, "by its key": {"hub", Fingerprint(keys[2])}} {
		byKey := authority.Fingerprint != ""
		table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{authority}})
		if err := errors.Join(table.Pin("m", keys[1]), table.Introduce("hub", keys[2], "m")); err != nil {
			t.Fatal(err)
		}
		if table.IsAuthority("hub") != byKey || (len(table.Strangers()) == 0) != byKey {
			t.Errorf("%s: authority %t, strangers %v", name, table.IsAuthority("hub"), table.Strangers())
		}
		table.Remove("a", keys[3], nil, false)
		if err := table.Introduce("a", keys[4], "hub"); (err == nil) != byKey {
			t.Errorf("%s: %v", name, err)
		}
		if err := table.Pin("hub", keys[2]); err != nil || !table.IsAuthority("hub") || len(table.Strangers()) != 0 {
			t.Errorf("%s, and swapped: %v, strangers %v", name, err, table.Strangers())
		}
	}
}

// TestAnAuthorityVouchesForNoStranger: an authority that joined after a had left cannot tell whether the key that left was
// a's. It takes no newcomer in a's name, which all others would admit for its sake, but the one that it had taken.
func TestAnAuthorityVouchesForNoStranger(t *testing.T) {
	keys := testKeys(6)
	late := func() *Table {
		table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{{"self", ""}}})
		if err := table.Pin("m", keys[1]); err != nil {
			t.Fatal(err)
		}
		table.Remove("a", keys[2], keys[3], true)
		return table
	}
	table := late()
	if err := table.Introduce("a", keys[4], "m"); !errors.Is(err, ErrReserved) || !slices.Equal(waits(table), []string{"a by m"}) || !table.Reserved("a") {
		t.Fatalf("%v, waiting %v", err, waits(table))
	}
	table.Remove("a", keys[5], nil, true) // which has it look again
	if _, pinned := table.Key("a"); pinned {
		t.Fatal("a statement of no meaning admits it")
	}
	table.Approve([]Name{{"a", Fingerprint(keys[4])}})
	if key, _ := table.Key("a"); !key.Equal(keys[4]) {
		t.Error("what a person approves is not pinned")
	}
	if err := table.Introduce("b", keys[5], "m"); err != nil {
		t.Error("of whom nothing was said:", err)
	}
	if err := late().Restore(Pin{ClusterID: "a", PublicKey: keys[4], Introducer: "m"}); err != nil {
		t.Error("a pin of an earlier run:", err)
	}
	proven := late()
	proven.Recall("a", keys[2], false)
	if err := proven.Introduce("a", keys[3], "m"); err != nil {
		t.Error("the successor of a key that was pinned here:", err)
	}
}

// TestLeftUnder: of a cluster that left and came back, a removal of all keys of the line leaves no successor; one of the pinned
// key alone would, to whoever has stolen an older one.
func TestLeftUnder(t *testing.T) {
	keys := testKeys(7)
	for name, all := range map[string]bool{"the line": true, "the pinned key": false} {
		table := with(t, keys, Options{})
		if err := table.Pin("a", keys[2]); err != nil {
			t.Fatal(err)
		}
		table.Remove("a", keys[5], keys[6], true) // made up
		table.Remove("a", keys[2], keys[3], true)
		if err := table.Introduce("a", keys[3], "m"); err != nil {
			t.Fatal(err)
		}
		older := table.LeftUnder("a")
		if len(older) != 1 || !older[0].Equal(keys[2]) {
			t.Fatalf("it left under %x", older)
		}
		table.Remove("a", keys[3], nil, false)
		if all {
			table.Remove("a", older[0], nil, false)
		}
		table.Remove("a", keys[2], keys[4], true) // another leave of the stolen key
		if err := table.Introduce("a", keys[4], "m"); (err == nil) == all {
			t.Errorf("%s was removed, and the newcomer: %v", name, err)
		}
	}
}

// TestNewcomersAreWeighedOnce: what was stated of a cluster is looked at once, however many newcomers come in its name, and
// again after it has changed.
func TestNewcomersAreWeighedOnce(t *testing.T) {
	keys := testKeys(8)
	table := with(t, keys, Options{})
	table.Remove("a", keys[2], keys[3], true)
	line := table.graph.line("a")
	for _, key := range keys[4:] {
		if err := table.Introduce("a", key, "m"); !errors.Is(err, ErrReserved) {
			t.Fatal(err)
		}
	}
	if table.graph.line("a") != line {
		t.Error("each newcomer has the statements looked at")
	}
	table.Remove("a", keys[3], keys[4], true)
	if key, _ := table.Key("a"); !key.Equal(keys[4]) {
		t.Error("the successor of the successor is not pinned")
	}
	_ = table.Introduce("nobody", keys[5], "m")
	if _, kept := table.graph.lines["nobody"]; kept {
		t.Error("a cluster of which nothing was stated takes memory")
	}
}

// TestForgottenKeysCount: who left the group and comes back still knows whose leave counts.
func TestForgottenKeysCount(t *testing.T) {
	keys := testKeys(4)
	table := with(t, keys, Options{})
	table.Forget("a")
	table.Remove("a", keys[2], nil, true)
	if err := table.Introduce("a", keys[3], "m"); !errors.Is(err, ErrReserved) {
		t.Error(err)
	}
}

// TestWaitingIsBounded: one member's newcomers leave room for those of others, and go with it.
func TestWaitingIsBounded(t *testing.T) {
	keys := testKeys(64)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	for i, id := range []string{"m", "n"} {
		if err := table.Pin(id, keys[1+i]); err != nil {
			t.Fatal(err)
		}
	}
	table.Remove("a", keys[3], nil, false)
	for _, key := range keys[4:60] {
		if err := table.Introduce("a", key, "m"); !errors.Is(err, ErrReserved) {
			t.Fatal(err)
		}
	}
	_ = table.Introduce("a", keys[60], "n")
	if got := waits(table); len(got) != maxWaitingBy+1 {
		t.Fatalf("%d wait", len(got))
	}
	table.Forget("m")
	if got := waits(table); !slices.Equal(got, []string{"a by n"}) {
		t.Fatalf("waiting %v", got)
	}
}

// TestManyIntroducersHideNobody: a member that makes up clusters, which bring newcomers, takes no place from one that others bring.
func TestManyIntroducersHideNobody(t *testing.T) {
	keys := testKeys(100)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	made := []string{"m", "m1", "m2", "m3"}
	for i, id := range append([]string{"real"}, made...) {
		if err := table.Introduce(id, keys[1+i], "m"); err != nil {
			t.Fatal(err)
		}
	}
	table.Remove("a", keys[6], nil, false)
	for i := range maxWaiting {
		_ = table.Introduce("a", keys[10+i], made[i%len(made)])
	}
	if got := waits(table); len(got) != maxWaiting {
		t.Fatalf("%d wait", len(got))
	}
	_ = table.Introduce("a", keys[90], "real")
	_ = table.Introduce("a", keys[91], "m") // its newcomer that was forgotten, or one more
	if got := waits(table); len(got) != maxWaiting || !slices.Contains(got, "a by real") {
		t.Errorf("%d wait: %v", len(got), got)
	}
}

func TestParseName(t *testing.T) {
	mark := Fingerprint(testKeys(1)[0])
	for text, ok := range map[string]bool{
		"id": true, "id/" + mark: true, "": false, "/": false, "id/": false, "ID": false, "id/" + mark[1:]: false, "id/" + mark + "0": false,
		"id/" + "G" + mark[1:]: false, "a b": false, "id/x/" + mark: false,
	} {
		name, err := ParseName(text)
		if (err == nil) != ok || ok && name.String() != text {
			t.Errorf("%q: %v, %v", text, name, err)
		}
	}
}

// TestPinsConvergeInAnyOrder: two tables whose persons did the same hear the same statements and introductions, each in
// an order of its own, with restarts in between; once all has been introduced again, as anti-entropy does, they have the
// same pins, and the same newcomers wait.
func TestPinsConvergeInAnyOrder(t *testing.T) {
	keys := testKeys(6)
	rapid.Check(t, func(t *rapid.T) {
		key := func(label string) int { return rapid.IntRange(2, 5).Draw(t, label) }
		approved := []Name{}
		if rapid.Bool().Draw(t, "approve") {
			approved = append(approved, Name{"a", Fingerprint(keys[key("approved")])})
		}
		introducer := rapid.SampledFrom([]string{"m", "authority"}).Draw(t, "introducer")
		newcomer := keys[key("newcomer")]
		introduce := func(table *Table) { _ = table.Introduce("a", newcomer, introducer) }
		about := map[int]bool{}
		var steps []func(*Table)
		for range rapid.IntRange(0, 4).Draw(t, "statements") {
			i := key("of")
			left, successor := rapid.Bool().Draw(t, "left"), keys[key("successor")]
			if about[i] && left {
				continue // of two leaves of one key the replica keeps one
			}
			about[i] = about[i] || left
			steps = append(steps, func(table *Table) { table.Remove("a", keys[i], successor, left) })
		}
		steps = append(steps, introduce)
		var first *Table
		for range 3 {
			table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{{"authority", ""}}})
			for i, id := range []string{"m", "authority"} {
				if err := table.Pin(id, testKeys(9)[7+i]); err != nil {
					t.Fatal(err)
				}
			}
			table.Approve(approved)
			for _, step := range rapid.Permutation(steps).Draw(t, "order") {
				step(table)
			}
			introduce(table)
			if first == nil {
				first = table
				continue
			}
			if !slices.EqualFunc(first.Pins(), table.Pins(), equalPins) {
				t.Fatalf("pins %v and %v", first.Pins(), table.Pins())
			}
			if !slices.Equal(waits(first), waits(table)) {
				t.Fatalf("waiting %v and %v", waits(first), waits(table))
			}
		}
	})
}
