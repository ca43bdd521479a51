// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	var got []Change
	order := ""
	a := newReplica(t, "a", 1)
	b, err := New(Options{
		Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: newRing("a"),
		Removed: func(Removal, bool, bool) { order += "removed" },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Subscribe(func(c []Change) { got, order = append(got, c...), order+"first " })
	b.Subscribe(func([]Change) {
		b.Digest() // no lock is held
		order += "second "
	})
	publish(t, b, rule("own"), Live, "x")
	merge(t, b, publish(t, a, rule("r"), Live, "x")...)
	merge(t, b, a.Complete()...)
	a = newReplica(t, "a", 2)
	merge(t, b, publish(t, a, rule("s"), Live, "x")...)
	merge(t, b, a.Complete()...)
	want := []Change{{rule("r"), "a"}, {Origin: "a"}, {rule("s"), "a"}, {rule("r"), "a"}, {Origin: "a"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	order = ""
	removal, err := b.SignRemoval("a", a.public(), "a", "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	if merge(t, b, removal.Message()); order != "first second removed" {
		t.Errorf("called: %s", order)
	}
}

func TestOwnEpochSeen(t *testing.T) {
	before, b := newReplica(t, "a", 7), newReplica(t, "b", 1, "a")
	publish(t, before, rule("r"), Live, "before")
	publish(t, before, rule("s"), Live, "before")
	pullFrom(t, b, before)

	var told []uint64
	a, err := New(Options{
		Self: "a", PrivateKey: testKey("a"), Epoch: 7, Keyring: newRing("b"),
		OwnEpochSeen: func(epoch uint64) { told = append(told, epoch) },
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, a, rule("r"), Live, "after")
	merge(t, a, b.Complete()...)
	if len(told) > 0 {
		t.Errorf("told of %v before a peer showed it", told)
	}
	if !lacks(t, a, b) {
		t.Fatal("an own number above ours must be pulled")
	}
	pullFrom(t, a, b)
	if got := a.OwnEpochSeen(); got != 7 || len(told) == 0 || slices.Min(told) != 7 {
		t.Fatalf("own epoch seen: %d, told of %v", got, told)
	}
	told = nil
	if merge(t, a, publish(t, b, rule("another"), Live, "x")...); !slices.Equal(told, []uint64{7}) {
		t.Errorf("after another merge told of %v", told)
	}
	if diff := cmp.Diff([]string{"r=after"}, payloads(a, "a")); diff != "" {
		t.Errorf("own entries came back: %s", diff)
	}
	if _, err := a.Reopen(7); !errors.Is(err, ErrEpoch) {
		t.Errorf("reopen at the epoch seen: %v", err)
	}
	if _, err := a.Reopen(8); err != nil {
		t.Fatal(err)
	}
	a.Complete()
	pullFrom(t, b, a)
	told = nil
	pullFrom(t, a, b)
	if len(told) > 0 {
		t.Errorf("told of %v after reopening", told)
	}
	if got := a.OwnEpochSeen(); got != 0 || lacks(t, a, b) || lacks(t, b, a) {
		t.Errorf("after reopening: %d seen", got)
	}
	if diff := cmp.Diff([]string{"r=after"}, payloads(b, "a")); diff != "" {
		t.Error(diff)
	}
}
