// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRestartWithNewEpoch(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	publish(t, a, rule("kept"), Live, "1")
	publish(t, a, rule("gone"), Live, "1")
	publish(t, a, rule("deleted"), Live, "1")
	publish(t, a, rule("withdrawn"), Live, "1")
	publish(t, a, rule("withdrawn"), Withdrawn, "1")
	old := publish(t, a, rule("deleted"), Deleted, "")
	a.Complete()
	pullFrom(t, b, a)

	a = newReplica(t, "a", 2)
	merge(t, b, publish(t, a, rule("kept"), Live, "2")...)
	merge(t, b, publish(t, a, rule("new"), Live, "2")...)
	want := []string{"gone=1", "kept=2", "new=2", "(withdrawn=1)"}
	if diff := cmp.Diff(want, payloads(b, "a")); diff != "" {
		t.Errorf("while the new epoch is announced: %s", diff)
	}
	if b.Absent(rule("gone"), "a") {
		t.Error("absence is claimed before the new epoch is complete")
	}
	merge(t, b, a.Complete()...)
	want = []string{"kept=2", "new=2", "(withdrawn=1)"}
	if diff := cmp.Diff(want, payloads(b, "a")); diff != "" {
		t.Errorf("after the new epoch is complete: %s", diff)
	}
	if !b.Absent(rule("gone"), "a") || b.Absent(rule("withdrawn"), "a") {
		t.Error("absence after the new epoch is complete")
	}
	if fresh, pull := merge(t, b, old...); fresh || pull {
		t.Error("an entry of an epoch that is over changed something")
	}
	if got := b.Stats(); got.Entries != 2 || got.Withdrawn != 1 || got.Tombstones != 0 {
		t.Errorf("stats: %+v", got)
	}
	// The origin takes back what it forgot, and a third member agrees.
	pullFrom(t, a, b)
	c := newReplica(t, "c", 1, "a")
	pullFrom(t, c, b)
	if !bytes.Equal(a.Digest()[:34], b.Digest()[:34]) || !bytes.Equal(b.Digest(), c.Digest()) {
		t.Error("digests differ")
	}
	if a.OwnEpochSeen() != 0 {
		t.Error("an own epoch below ours counts as a sign")
	}
}

// An epoch that stays half announced hides nothing of the one before, and a newcomer can still
// prove that one.
func TestHalfAnnouncedEpoch(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	for _, name := range []string{"r1", "r2", "r3"} {
		publish(t, a, rule(name), Live, "1")
	}
	a.Complete()
	pullFrom(t, b, a)
	a = newReplica(t, "a", 2)
	merge(t, b, publish(t, a, rule("r2"), Live, "2")...)

	c := newReplica(t, "c", 1, "a")
	pullFrom(t, c, b)
	if diff := cmp.Diff([]string{"r1=1", "r2=2", "r3=1"}, payloads(c, "a")); diff != "" {
		t.Error(diff)
	}
	if p := c.Progress("a"); p.Completed != 1 || p.Complete || p.Epoch != 2 {
		t.Errorf("progress: %+v", p)
	}
	if lacks(t, c, b) || lacks(t, b, c) {
		t.Error("members with equal contents lack something")
	}
}

func TestEpochsBeyondMemoryAreNotProof(t *testing.T) {
	b := newReplica(t, "b", 1, "a")
	for epoch := range uint64(6) {
		a := newReplica(t, "a", epoch+1)
		name := string(rune('p' + epoch))
		merge(t, b, publish(t, a, rule(name), Live, "x")...)
		if epoch == 0 {
			merge(t, b, a.Complete()...)
		}
	}
	if diff := cmp.Diff([]string{"p=x", "t=x", "u=x"}, payloads(b, "a")); diff != "" {
		t.Error(diff)
	}
	if b.Absent(rule("q"), "a") {
		t.Error("an entry that was let go counts as absent")
	}
	a := newReplica(t, "a", 9)
	merge(t, b, a.Complete()...)
	if !b.Absent(rule("q"), "a") || len(payloads(b, "a")) != 0 {
		t.Error("after an epoch completed with nothing in it")
	}
}

func TestReopen(t *testing.T) {
	a, b := newReplica(t, "a", 3), newReplica(t, "b", 1, "a")
	publish(t, a, rule("r"), Live, "x")
	publish(t, a, Key{KindCluster, "a"}, Live, "x")
	publish(t, a, rule("s"), Live, "x")
	publish(t, a, rule("s"), Deleted, "")
	a.Complete()
	if _, err := a.Reopen(3); !errors.Is(err, ErrEpoch) {
		t.Errorf("the same epoch: %v", err)
	}
	msgs, err := a.Reopen(4)
	if err != nil || len(msgs) != 3 {
		t.Fatalf("%d messages, %v; want two entries and the mark", len(msgs), err)
	}
	if m, err := decodeMessage(msgs[0]); err != nil || m.entry.Key.Kind != KindCluster || m.entry.Epoch != 4 || m.entry.Sequence != 1 {
		t.Errorf("first message: %+v, %v", m, err)
	}
	merge(t, b, msgs...)
	if p := b.Progress("a"); !p.Complete || p.Epoch != 4 || p.Entries != 2 {
		t.Errorf("progress: %+v", p)
	}
}

func TestOwnEpochSeen(t *testing.T) {
	before, b := newReplica(t, "a", 7), newReplica(t, "b", 1, "a")
	publish(t, before, rule("r"), Live, "before")
	publish(t, before, rule("s"), Live, "before")
	pullFrom(t, b, before)

	a := newReplica(t, "a", 7)
	publish(t, a, rule("r"), Live, "after")
	if !lacks(t, a, b) {
		t.Fatal("an own number above ours must be pulled")
	}
	pullFrom(t, a, b)
	if got := a.OwnEpochSeen(); got != 7 {
		t.Fatalf("own epoch seen: %d", got)
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
	if got := a.OwnEpochSeen(); got != 0 || lacks(t, a, b) || lacks(t, b, a) {
		t.Errorf("after reopening: %d seen", got)
	}
	if diff := cmp.Diff([]string{"r=after"}, payloads(b, "a")); diff != "" {
		t.Error(diff)
	}
}
