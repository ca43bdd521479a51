// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"errors"
	"slices"
	"strings"
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

// The mark of completeness ends no epoch before what was announced until then is here.
func TestMarkArrivesFirst(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	publish(t, a, rule("r1"), Live, "1")
	publish(t, a, rule("r2"), Live, "1")
	a.Complete()
	pullFrom(t, b, a)
	a = newReplica(t, "a", 2)
	entry := publish(t, a, rule("r2"), Live, "2")
	merge(t, b, a.Complete()...)
	if diff := cmp.Diff([]string{"r1=1", "r2=1"}, payloads(b, "a")); diff != "" || b.Absent(rule("r1"), "a") {
		t.Errorf("before the announcement: %s", diff)
	}
	merge(t, b, entry...)
	if diff := cmp.Diff([]string{"r2=2"}, payloads(b, "a")); diff != "" || !b.Absent(rule("r1"), "a") {
		t.Errorf("after it: %s", diff)
	}
}

// A withdrawal ends with what its origin says after it, even in an epoch that it never completed.
func TestWithdrawalEnds(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	publish(t, a, rule("r"), Live, "1")
	publish(t, a, rule("r"), Withdrawn, "1")
	a.Complete()
	pullFrom(t, b, a)
	a = newReplica(t, "a", 2)
	a.Complete()
	pullFrom(t, b, a)
	if diff := cmp.Diff([]string{"(r=1)"}, payloads(b, "a")); diff != "" {
		t.Fatal(diff)
	}
	a = newReplica(t, "a", 3)
	merge(t, b, publish(t, a, rule("r"), Live, "2")...)
	if diff := cmp.Diff([]string{"r=2"}, payloads(b, "a")); diff != "" {
		t.Fatal(diff)
	}
	a = newReplica(t, "a", 4)
	merge(t, b, a.Complete()...)
	if len(payloads(b, "a")) > 0 || !b.Absent(rule("r"), "a") {
		t.Errorf("it was published and is gone, and %v is shown", payloads(b, "a"))
	}
}

// An origin that was told of its withdrawals says them again with all that it has.
func TestReopenRepeatsWithdrawals(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	publish(t, a, rule("r"), Live, "1")
	publish(t, a, rule("r"), Withdrawn, "1")
	a.Complete()
	pullFrom(t, b, a)
	a = newReplica(t, "a", 2)
	a.Complete()
	pullFrom(t, a, b)
	msgs, err := a.Reopen(3)
	if err != nil || len(msgs) != 2 {
		t.Fatalf("%d messages, %v; want the withdrawal and the mark", len(msgs), err)
	}
	c := newReplica(t, "c", 1, "a")
	merge(t, c, msgs...)
	if diff := cmp.Diff([]string{"(r=1)"}, payloads(c, "a")); diff != "" {
		t.Error(diff)
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
	if diff := cmp.Diff([]string{"p=x", "q=x", "r=x", "s=x", "t=x", "u=x"}, payloads(b, "a")); diff != "" {
		t.Error(diff)
	}
	if b.Absent(rule("q"), "a") {
		t.Error("an entry that was let go counts as absent")
	}
	// What was seen is not shown older, and a withdrawal outlives its epoch.
	a := newReplica(t, "a", 7)
	merge(t, b, publish(t, a, rule("p"), Live, "y")...)
	merge(t, b, publish(t, a, rule("retired"), Withdrawn, "y")...)
	for epoch := range uint64(3) {
		merge(t, b, publish(t, newReplica(t, "a", epoch+8), rule("v"), Live, "x")...)
	}
	if diff := cmp.Diff([]string{"p=y", "q=x", "r=x", "(retired=y)", "s=x", "t=x", "u=x", "v=x"}, payloads(b, "a")); diff != "" {
		t.Error(diff)
	}
	a = newReplica(t, "a", 20)
	merge(t, b, a.Complete()...)
	if !b.Absent(rule("q"), "a") || !slices.Equal(payloads(b, "a"), []string{"(retired=y)"}) {
		t.Error("after an epoch completed with nothing in it")
	}
}

// An older tombstone says nothing of what an epoch held that was let go.
func TestTombstoneBelowWhatWasLetGo(t *testing.T) {
	a := newReplica(t, "a", 1)
	b, err := New(Options{Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: newRing("a"), Limits: Limits{Bytes: 800}})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, a, rule("p"), Live, "1")
	publish(t, a, rule("p"), Deleted, "")
	a.Complete()
	pullFrom(t, b, a)
	if !b.Absent(rule("p"), "a") {
		t.Fatal("its tombstone is held")
	}
	a = newReplica(t, "a", 2)
	merge(t, b, publish(t, a, rule("p"), Live, "2")...)
	merge(t, b, publish(t, newReplica(t, "a", 3), rule("q"), Live, strings.Repeat("x", 450))...)
	if got := payloads(b, "a"); len(got) != 1 || b.Absent(rule("p"), "a") {
		t.Errorf("p is called absent, and %d are shown", len(got))
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

// Tombstones go when there are more of them than of anything else, at whoever proves the epoch after them: also at a
// member that was away for all of it, which drops what was deleted and keeps what lives, or is withdrawn.
func TestTombstonesGo(t *testing.T) {
	a, b, away := newReplica(t, "a", 1), newReplica(t, "b", 1, "a"), newReplica(t, "c", 1, "a")
	for _, name := range []string{"lives", "p", "q", "r", "retired"} {
		publish(t, a, rule(name), Live, "1")
	}
	publish(t, a, rule("retired"), Withdrawn, "1")
	a.Complete()
	pullFrom(t, b, a)
	pullFrom(t, away, a)
	for i, name := range []string{"p", "q", "r"} {
		if a.TooManyTombstones(0) {
			t.Fatalf("%d tombstones of 5 entries are too many", i)
		}
		publish(t, a, rule(name), Deleted, "")
	}
	if !a.TooManyTombstones(2) || a.TooManyTombstones(3) {
		t.Fatal("3 tombstones are more than 2, and than 2 other entries")
	}
	pullFrom(t, b, a)
	msgs, err := a.Reopen(2)
	if err != nil {
		t.Fatal(err)
	}
	merge(t, b, msgs...)
	for i := 0; i < 3 && lacks(t, away, b); i++ { // from another member
		pullFrom(t, away, b)
	}
	for _, r := range []*Replica{a, b, away} {
		if s := r.Stats(); s.Tombstones != 0 || a.TooManyTombstones(0) {
			t.Errorf("%s holds %+v", r.self, s)
		}
		if diff := cmp.Diff([]string{"lives=1", "(retired=1)"}, payloads(r, "a")); diff != "" || !r.Absent(rule("p"), "a") || r.Absent(rule("retired"), "a") {
			t.Errorf("%s: %s", r.self, diff)
		}
	}
	// Nor does who was away bring anything back.
	c := newReplica(t, "d", 1, "a")
	pullFrom(t, c, away)
	if diff := cmp.Diff([]string{"lives=1", "(retired=1)"}, payloads(c, "a")); diff != "" {
		t.Error(diff)
	}
}

// A withdrawal that found no room any more may still be one: its copies stay.
func TestForgottenWithdrawalIsNoProof(t *testing.T) {
	b, err := New(Options{Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: newRing("a"), Limits: Limits{Bytes: 800}})
	if err != nil {
		t.Fatal(err)
	}
	merge(t, b, newReplica(t, "a", 1).Complete()...)
	merge(t, b, publish(t, newReplica(t, "a", 2), rule("kept"), Withdrawn, "x")...)
	if diff := cmp.Diff([]string{"(kept=x)"}, payloads(b, "a")); diff != "" {
		t.Fatal(diff)
	}
	merge(t, b, publish(t, newReplica(t, "a", 3), rule("large"), Live, strings.Repeat("x", 650))...)
	merge(t, b, newReplica(t, "a", 4).Complete()...)
	if got := payloads(b, "a"); len(got) > 0 {
		t.Fatalf("there was room for all: %v", got)
	}
	if b.Absent(rule("kept"), "a") {
		t.Error("what was withdrawn, and let go for want of room, counts as deleted")
	}
	var snapshot bytes.Buffer
	if err := b.Snapshot()(&snapshot); err != nil {
		t.Fatal(err)
	}
	again, err := New(Options{Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: newRing("a"), Limits: Limits{Bytes: 800}})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Restore(&snapshot); err != nil {
		t.Fatal(err)
	}
	if again.Absent(rule("kept"), "a") {
		t.Error("after a restart it counts as deleted")
	}
}

// What was in force with an epoch that made room for newer ones is so after a restart too: a deletion is not undone, an
// old version does not come back, and a withdrawal is still one once an epoch is complete.
func TestPassedEntriesOutliveARestart(t *testing.T) {
	before := newReplica(t, "b", 1, "a")
	first := newReplica(t, "a", 1)
	for _, name := range []string{"changed", "deleted", "retired"} {
		merge(t, before, publish(t, first, rule(name), Live, "old")...)
	}
	merge(t, before, first.Complete()...)
	second := newReplica(t, "a", 2)
	merge(t, before, publish(t, second, rule("changed"), Live, "new")...)
	merge(t, before, publish(t, second, rule("retired"), Withdrawn, "old")...)
	publish(t, second, rule("deleted"), Live, "old")
	merge(t, before, publish(t, second, rule("deleted"), Deleted, "")...)
	for epoch := range uint64(maxLayers) { // none of which it completes
		merge(t, before, publish(t, newReplica(t, "a", 3+epoch), rule("other"), Live, "x")...)
	}
	if len(before.state.origin("a").evicted) == 0 {
		t.Fatal("no epoch made room")
	}
	after := newReplica(t, "b", 1, "a")
	after.author = nil
	if err := after.Restore(bytes.NewReader(snapshotOf(t, before))); err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, after.state)
	want := []string{"changed=new", "other=x", "(retired=old)"}
	for r, when := range map[*Replica]string{before: "before", after: "after"} {
		got := payloads(r, "a")
		slices.SortFunc(got, func(a, b string) int { return strings.Compare(strings.Trim(a, "("), strings.Trim(b, "(")) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s the restart: %s", when, diff)
		}
		merge(t, r, newReplica(t, "a", 9).Complete()...)
		if diff := cmp.Diff([]string{"(retired=old)"}, payloads(r, "a")); diff != "" {
			t.Errorf("%s the restart, once an epoch is complete: %s", when, diff)
		}
	}
}
