// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPublishSaysOnlyWhatIsNew(t *testing.T) {
	a := newReplica(t, "a", 1)
	steps := []struct {
		status  Status
		payload string
		want    int
	}{
		{Deleted, "", 0},
		{Live, "x", 1},
		{Live, "x", 0},
		{Live, "y", 1},
		{Deleted, "", 1},
		{Deleted, "", 0},
		{Live, "y", 1},
		{Withdrawn, "y", 1},
		{Deleted, "", 0},
		{Withdrawn, "y", 0},
	}
	for i, step := range steps {
		if got := len(publish(t, a, rule("r"), step.status, step.payload)); got != step.want {
			t.Errorf("step %d: %d messages, want %d", i, got, step.want)
		}
	}
	if got := payloads(a, "a"); !slices.Equal(got, []string{"(r=y)"}) {
		t.Errorf("in force: %v", got)
	}
	if len(a.Complete()) != 1 || len(a.Complete()) != 0 {
		t.Error("the completeness mark is signed once")
	}
}

func TestPublishRefuses(t *testing.T) {
	a := newReplica(t, "a", 1)
	if _, err := a.Publish(rule("r"), Live, make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1 MiB and a byte: %v", err)
	}
	if msgs, err := a.Publish(rule("r"), Live, make([]byte, MaxPayload)); err != nil || len(msgs) != 2 || len(msgs[0]) > MaxMessage {
		t.Errorf("1 MiB: %d messages, %v; want the entry and a head", len(msgs), err)
	}
	if _, err := a.Publish(Key{KindCluster, "b"}, Live, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("Cluster entry of another cluster: %v", err)
	}
	if _, err := a.Publish(rule("with space"), Live, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("name with a space: %v", err)
	}
}

func TestGossipInOrder(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	for _, payload := range []string{"1", "2", "3"} {
		msgs := publish(t, a, rule("r"), Live, payload)
		if fresh, pull := merge(t, b, msgs...); !fresh || pull {
			t.Fatalf("payload %s: fresh %t, pull %t", payload, fresh, pull)
		}
		if fresh, pull := merge(t, b, msgs...); fresh || pull {
			t.Fatalf("payload %s again: fresh %t, pull %t", payload, fresh, pull)
		}
	}
	want := Progress{Epoch: 1, Sequence: 3, HeadSequence: 3, Entries: 1}
	if diff := cmp.Diff(want, b.Progress("a")); diff != "" {
		t.Error(diff)
	}
	if b.Absent(rule("other"), "a") {
		t.Error("absence is claimed before the set is complete")
	}
	merge(t, b, a.Complete()...)
	if !b.Absent(rule("other"), "a") || b.Absent(rule("r"), "a") || b.Absent(rule("other"), "nobody") {
		t.Error("absence after the completeness mark")
	}
}

func TestGap(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	merge(t, b, a.Complete()...)
	var msgs [][]byte
	for _, name := range []string{"r1", "r2", "r3", "r4"} {
		msgs = append(msgs, publish(t, a, rule(name), Live, "x")...)
	}
	merge(t, b, msgs[0])
	if fresh, pull := merge(t, b, msgs[2]); !fresh || !pull {
		t.Errorf("past a gap: fresh %t, pull %t", fresh, pull)
	}
	if p := b.Progress("a"); p.Sequence != 1 || p.Complete {
		t.Errorf("progress past a gap: %+v", p)
	}
	if b.Absent(rule("r2"), "a") {
		t.Error("absence is claimed across a known gap")
	}
	if fresh, pull := merge(t, b, msgs[1]); !fresh || pull {
		t.Errorf("filling the gap: fresh %t, pull %t", fresh, pull)
	}
	if p := b.Progress("a"); p.Sequence != 3 || !p.Complete {
		t.Errorf("progress after the gap: %+v", p)
	}
}

// What a delta leaves out as superseded is proven by the claims of what it has.
func TestDeltaJumpsOverSuperseded(t *testing.T) {
	a, b, c := newReplica(t, "a", 1), newReplica(t, "b", 1, "a"), newReplica(t, "c", 1, "a")
	for range 5 {
		for _, name := range []string{"r1", "r2", "r3"} {
			payload := strings.Repeat("x", int(a.Progress("a").Sequence)+1)
			merge(t, b, publish(t, a, rule(name), Live, payload)...)
		}
	}
	merge(t, b, publish(t, a, rule("r2"), Deleted, "")...)
	// The origin is gone; c learns everything from b.
	if !lacks(t, c, b) || lacks(t, b, c) {
		t.Error("who lacks what before the pull")
	}
	if pullFrom(t, c, b) {
		t.Error("a complete delta asks for more")
	}
	if p := c.Progress("a"); p.Sequence != 16 || p.HeadSequence != 16 {
		t.Errorf("progress: %+v", p)
	}
	if lacks(t, c, b) || lacks(t, b, c) || !bytes.Equal(b.Digest(), c.Digest()) {
		t.Error("digests differ after the pull")
	}
	if !c.Absent(rule("r2"), "a") {
		t.Error("the tombstone did not arrive")
	}
}

// A relay that withholds an entry cannot make a newcomer believe that it has everything.
func TestWithheldEntryIsNoticed(t *testing.T) {
	a, c := newReplica(t, "a", 1), newReplica(t, "c", 1, "a")
	for _, name := range []string{"r1", "r2", "r3"} {
		publish(t, a, rule(name), Live, "x")
	}
	a.Complete()
	pull := false
	err := a.Delta(c.Digest(), func(msg []byte) error {
		if m, err := decodeMessage(msg); err != nil || m.entry != nil && m.entry.Key == rule("r2") {
			return err
		}
		var err error
		_, pull, err = c.Merge(msg, "liar")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !pull || c.Absent(rule("r2"), "a") || c.Progress("a").Complete {
		t.Errorf("withheld entry: pull %t, absent %t", pull, c.Absent(rule("r2"), "a"))
	}
	if pullFrom(t, c, a) || !c.Progress("a").Complete {
		t.Errorf("after a pull from another member: %+v", c.Progress("a"))
	}
}

func TestClone(t *testing.T) {
	one, two := newReplica(t, "a", 1), newReplica(t, "a", 1)
	b, c := newReplica(t, "b", 1, "a"), newReplica(t, "c", 1, "a")
	merge(t, b, publish(t, one, rule("r"), Live, "one")...)
	merge(t, c, publish(t, two, rule("r"), Live, "two")...)
	publish(t, one, rule("s"), Live, "only in one")
	merge(t, b, one.Complete()...)
	merge(t, c, two.Complete()...)
	for range 3 {
		pullFrom(t, b, one)
		pullFrom(t, b, c)
		pullFrom(t, c, b)
		pullFrom(t, one, b)
		pullFrom(t, two, b)
	}
	if diff := cmp.Diff(payloads(b, "a"), payloads(c, "a")); diff != "" {
		t.Errorf("members disagree on a clone: %s", diff)
	}
	for name, r := range map[string]*Replica{"b": b, "c": c} {
		if len(r.Clones()) != 1 {
			t.Errorf("%s does not report the clone", name)
		}
	}
	if one.OwnEpochSeen()+two.OwnEpochSeen() == 0 {
		t.Error("neither twin notices the other")
	}
	if lacks(t, b, c) || lacks(t, c, b) {
		t.Error("members go on pulling")
	}
}

func TestIntroduction(t *testing.T) {
	a := newReplica(t, "a", 1)
	keyring := newRing()
	b, err := New(Options{Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: keyring})
	if err != nil {
		t.Fatal(err)
	}
	cluster := publish(t, a, Key{KindCluster, "a"}, Live, "x")[0]
	other := publish(t, a, rule("r"), Live, "x")[0]
	for name, msg := range map[string][]byte{"cluster by gossip": cluster, "rule": other, "head": a.Complete()[0]} {
		if _, pull, err := b.Merge(msg, ""); !errors.Is(err, ErrUnknownOrigin) || !pull {
			t.Errorf("%s: pull %t, %v", name, pull, err)
		}
	}
	if _, pull, err := b.Merge(other, "c"); !errors.Is(err, ErrUnknownOrigin) || !pull {
		t.Errorf("rule in a delta: pull %t, %v", pull, err)
	}
	keyring.refuse = errors.New("table is full")
	if _, pull, err := b.Merge(cluster, "c"); !errors.Is(err, keyring.refuse) || pull {
		t.Errorf("refused introduction: pull %t, %v", pull, err)
	}
	keyring.refuse = nil
	pullFrom(t, b, a)
	if keyring.via["a"] != "a" || !b.Progress("a").Complete {
		t.Errorf("introduced by %q, progress %+v", keyring.via["a"], b.Progress("a"))
	}
}

func TestForgery(t *testing.T) {
	mallory := newReplica(t, "m", 1)
	forged := signEntry(testKey("m"), Entry{
		Key: rule("r"), Origin: "a", Epoch: 9, Sequence: 1, Status: Live,
	}, func([32]byte) [32]byte { return [32]byte{} })
	b := newReplica(t, "b", 1, "a", "m")
	if _, _, err := b.Merge(forged.msg, "m"); !errors.Is(err, ErrSignature) {
		t.Errorf("an entry of another origin: %v", err)
	}
	theft := Entry{Key: Key{KindCluster, "a"}, Origin: "m", Epoch: 1, Sequence: 1, Status: Live, PublicKey: testKey("m")[32:]}
	stolen := signEntry(testKey("m"), theft, func([32]byte) [32]byte { return [32]byte{} })
	if _, _, err := b.Merge(stolen.msg, "m"); !errors.Is(err, ErrMalformed) {
		t.Errorf("a Cluster entry with another origin: %v", err)
	}
	rekey := Entry{Key: Key{KindCluster, "m"}, Origin: "m", Epoch: 1, Sequence: 1, Status: Live, PublicKey: testKey("a")[32:]}
	rekeyed := signEntry(testKey("m"), rekey, func([32]byte) [32]byte { return [32]byte{} })
	if _, _, err := b.Merge(rekeyed.msg, "m"); !errors.Is(err, ErrSignature) {
		t.Errorf("a Cluster entry with another key than the pinned one: %v", err)
	}
	msg := publish(t, mallory, rule("r"), Live, "x")[0]
	for i := range msg {
		bad := bytes.Clone(msg)
		bad[i] ^= 1
		if fresh, _, err := b.Merge(bad, ""); fresh || err == nil {
			t.Fatalf("byte %d changed: fresh %t, %v", i, fresh, err)
		}
	}
	if s := b.Stats(); s.Entries != 0 {
		t.Errorf("held: %+v", s)
	}
}

// An entry that nobody has costs everything once, and not at each later change.
func TestLostEntryIsAskedForOnce(t *testing.T) {
	a, b, c := newReplica(t, "a", 1), newReplica(t, "b", 1, "a"), newReplica(t, "c", 1, "a")
	var lost []byte
	for i := range 30 {
		msgs := publish(t, a, rule(fmt.Sprint("r", i)), Live, "x")
		if i == 9 {
			lost = msgs[0]
			continue
		}
		merge(t, b, msgs...)
	}
	merge(t, b, a.Complete()...)
	var sent []int
	for i := range 6 {
		merge(t, b, publish(t, a, rule("r0"), Live, fmt.Sprint(i))...)
		n := 0
		if err := b.Delta(c.Digest(), func(msg []byte) error {
			n++
			_, _, err := c.Merge(msg, "b")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, n)
	}
	if diff := cmp.Diff([]int{30, 30, 2, 2, 2, 2}, sent); diff != "" {
		t.Errorf("messages of the deltas: %s", diff)
	}
	if lacks(t, c, b) || c.Progress("a").Complete || c.Absent(rule("none"), "a") {
		t.Errorf("lacks %t, progress %+v", lacks(t, c, b), c.Progress("a"))
	}
	if _, pull := merge(t, c, publish(t, a, rule("r1"), Live, "y")...); pull {
		t.Error("the next number asks for a pull")
	}
	// Whoever has it after all heals the others.
	merge(t, b, lost)
	pullFrom(t, b, a)
	if !lacks(t, c, b) || pullFrom(t, c, b) || !c.Progress("a").Complete {
		t.Errorf("after the entry was found: %+v", c.Progress("a"))
	}
}

// A head that is held is known without its signature, and closes a delta all the same.
func TestKnownHead(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	publish(t, a, rule("r"), Live, "x")
	head := a.Complete()[0]
	merge(t, b, head)
	head = bytes.Clone(head)
	head[len(head)-1] ^= 1
	if fresh, pull := merge(t, b, head); fresh || pull {
		t.Errorf("by gossip: fresh %t, pull %t", fresh, pull)
	}
	if fresh, pull, err := b.Merge(head, "a"); fresh || !pull || err != nil || b.state.origin("a").layers[0].doubt != doubted {
		t.Errorf("in a delta: fresh %t, pull %t, %v", fresh, pull, err)
	}
	if err := b.Delta(newReplica(t, "c", 1, "a").Digest(), func(msg []byte) error {
		if bytes.Equal(msg, head) {
			t.Error("the unsigned bytes are forwarded")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestFindAndEntriesAreOrdered(t *testing.T) {
	b := newReplica(t, "b", 1, "a", "c")
	publish(t, b, rule("r"), Live, "b")
	for _, id := range []string{"c", "a"} {
		merge(t, b, publish(t, newReplica(t, id, 1), rule("r"), Live, id)...)
		merge(t, b, publish(t, newReplica(t, id, 2), rule("q"), Live, id)...)
	}
	var got []string
	for _, e := range append(b.Find(rule("r")), b.Entries(KindRule)...) {
		got = append(got, e.Key.Name+e.Origin)
	}
	if diff := cmp.Diff([]string{"ra", "rb", "rc", "qa", "qc", "ra", "rb", "rc"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMergeKeepsNothingOfItsArgument(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	for _, msg := range append(publish(t, a, Key{KindCluster, "a"}, Live, "payload"), a.Complete()...) {
		buffer := bytes.Clone(msg)
		if _, _, err := b.Merge(buffer, "a"); err != nil {
			t.Fatal(err)
		}
		clear(buffer)
	}
	if diff := cmp.Diff(a.Entries(KindCluster), b.Entries(KindCluster)); diff != "" {
		t.Error(diff)
	}
	if c := newReplica(t, "c", 1, "a"); pullFrom(t, c, b) || !c.Progress("a").Complete {
		t.Error("what was merged cannot be forwarded")
	}
}

func TestOversizedEntryIsAnnouncedByHead(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	msgs := publish(t, a, rule("big"), Live, strings.Repeat("x", 100_000))
	fresh, pull := merge(t, b, msgs[1])
	if !fresh || !pull {
		t.Fatalf("head of an entry that did not arrive: fresh %t, pull %t", fresh, pull)
	}
	if !lacks(t, b, a) || pullFrom(t, b, a) || lacks(t, b, a) || len(payloads(b, "a")) != 1 {
		t.Error("the entry was not pulled")
	}
}
