// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func limited(t testing.TB, id string, limits Limits, known ...string) *Replica {
	t.Helper()
	ring := newRing(known...)
	r, err := New(Options{Self: id, PrivateKey: testKey(id), Epoch: 1, Keyring: ring, Limits: limits, Parent: ring.parent(id)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pullFull is a pull of which some finds no room; it returns the messages sent.
func pullFull(t testing.TB, to, peer *Replica) (sent int) {
	t.Helper()
	err := peer.Delta(to.Digest(), func(msg []byte) error {
		sent++
		if _, _, err := to.Merge(msg, peer.self); !errors.Is(err, ErrFull) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, to.state)
	return sent
}

// Two members of which each has room for another part do not exchange it for ever, take what
// is new, and agree once there is room.
func TestFullMembersStopAsking(t *testing.T) {
	for name, limits := range map[string]Limits{"bytes": {Bytes: 2200}, "total": {TotalBytes: 2200}, "entries": {Entries: 10}} {
		t.Run(name, func(t *testing.T) {
			a := newReplica(t, "a", 1)
			b, c := limited(t, "b", limits, "a"), limited(t, "c", limits, "a")
			var msgs [][]byte
			for i := range 20 {
				msgs = append(msgs, publish(t, a, rule(fmt.Sprint("r", i)), Live, strings.Repeat("x", 50))...)
			}
			msgs = append(msgs, a.Complete()...)
			for i := range msgs {
				for r, at := range map[*Replica]int{b: i, c: len(msgs) - 1 - i} {
					if _, _, err := r.Merge(msgs[at], ""); err != nil && !errors.Is(err, ErrFull) {
						t.Fatal(err)
					}
				}
			}
			for range 3 {
				pullFull(t, b, a)
				pullFull(t, b, c)
				pullFull(t, c, b)
				pullFull(t, c, a)
			}
			for _, pair := range [][2]*Replica{{b, c}, {c, b}, {b, a}, {c, a}} {
				if lacks(t, pair[0], pair[1]) {
					t.Errorf("%s still asks %s", pair[0].self, pair[1].self)
				}
				if n := pullFull(t, pair[0], pair[1]); n > 0 {
					t.Errorf("%s is sent %d messages by %s", pair[0].self, n, pair[1].self)
				}
			}
			if s := b.Stats(); s.Full != 1 || s.Refused == 0 || b.Progress("a").Refused != s.Refused {
				t.Errorf("stats: %+v", s)
			}
			if b.Absent(rule("none"), "a") || b.Progress("a").Complete {
				t.Error("a set without room for it counts as complete")
			}
			// In the next epoch there is less of it.
			next := newReplica(t, "a", 2)
			publish(t, next, rule("r0"), Live, "y")
			next.Complete()
			for range 2 {
				pullFull(t, b, next)
				pullFull(t, c, b)
			}
			if s := c.Stats(); s.Full != 0 || !b.Progress("a").Complete || !c.Progress("a").Complete {
				t.Errorf("after an epoch that fits: %+v, %+v", s, c.Progress("a"))
			}
		})
	}
}

// What others hold does not limit us, and our own epoch leaves room for the next one.
func TestOwnShare(t *testing.T) {
	limits := Limits{Bytes: 4000, TotalBytes: 1000}
	a, b := newReplica(t, "a", 1), limited(t, "b", limits, "a")
	for i := range 10 {
		if _, _, err := b.Merge(publish(t, a, rule(fmt.Sprint("r", i)), Live, "x")[0], ""); err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	var err error
	for i := 0; err == nil; i++ {
		_, err = b.Publish(rule(fmt.Sprint("r", i)), Live, []byte("x"))
	}
	held := b.state.origin("b").used()
	if !errors.Is(err, ErrFull) || held > limits.Bytes/2 || held < limits.Bytes/3 {
		t.Errorf("own entries of %d bytes, %v", held, err)
	}
	b.Complete()
	// Others take it in any number of epochs that are not completed.
	c := limited(t, "c", Limits{Bytes: 4000}, "a", "b")
	for epoch := range uint64(6) {
		if epoch > 0 {
			if _, err := b.Reopen(epoch + 1); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range b.state.origin("b").layers[len(b.state.origin("b").layers)-1].records {
			merge(t, c, r.msg)
		}
		checkInvariants(t, c.state)
	}
	pullFrom(t, c, b)
	if !c.Progress("b").Complete {
		t.Errorf("progress: %+v", c.Progress("b"))
	}
}

func TestLimits(t *testing.T) {
	a := newReplica(t, "a", 1)
	b, err := New(Options{Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: newRing("a"), Limits: Limits{Entries: 2, Bytes: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	merge(t, b, publish(t, a, rule("r1"), Live, "x")...)
	merge(t, b, publish(t, a, rule("r2"), Live, "x")...)
	if _, _, err := b.Merge(publish(t, a, rule("r3"), Live, "x")[0], ""); !errors.Is(err, ErrFull) {
		t.Errorf("third entry: %v", err)
	}
	if _, _, err := b.Merge(publish(t, a, rule("r1"), Live, strings.Repeat("x", 800))[0], ""); !errors.Is(err, ErrFull) {
		t.Errorf("too many bytes: %v", err)
	}
	if fresh, _ := merge(t, b, publish(t, a, rule("r1"), Deleted, "")...); !fresh {
		t.Error("a tombstone finds no room")
	}
}

// takesAll has a replica take all that an origin, which a member introduced, or a person with "", says in so many rules. It returns
// how many were refused.
func takesAll(t *testing.T, b *Replica, id, introducer string, rules, payload int) (refused int) {
	t.Helper()
	a := newReplica(t, id, 1)
	msgs := publish(t, a, Key{KindCluster, id}, Live, "cluster")
	for n := range rules {
		msgs = append(msgs, publish(t, a, rule(fmt.Sprint("r", n)), Live, strings.Repeat("x", payload))...)
	}
	if introducer == "" {
		b.keyring.(*ring).keys[id] = keyOf(id)
		introducer = id
	}
	for _, msg := range msgs {
		if _, _, err := b.Merge(msg, introducer); errors.Is(err, ErrFull) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return refused
}

// Beside twelve clusters that a member invented, each of which takes what it can get, all 200 rules of an honest member that the same
// one had admitted are taken, and all of those that others admitted, however much they say; whoever of them comes first.
func TestInventionsFillNoCluster(t *testing.T) {
	const mega = 1 << 20
	limits := Limits{TotalBytes: 8 * mega, Bytes: mega}
	for _, first := range []bool{true, false} {
		b := limited(t, "b", limits)
		honest := func() {
			for id, c := range map[string]struct {
				by             string
				rules, payload int
			}{"sibling": {"bad", 200, 1024}, "friend": {"", 100, 9 * 1024}, "of-hub": {"hub", 100, 9 * 1024}, "of-hub-too": {"hub", 100, 9 * 1024}} {
				if refused := takesAll(t, b, id, c.by, c.rules, c.payload); refused > 0 {
					t.Errorf("honest ones first %t: of %d entries of %s %d find no room", first, c.rules+1, id, refused)
				}
			}
		}
		takesAll(t, b, "bad", "", 0, 0)
		takesAll(t, b, "hub", "", 0, 0)
		if first {
			honest()
		}
		cut := 0
		for n := range 12 {
			if takesAll(t, b, fmt.Sprintf("invented-%02d", n), "bad", 128, 7<<10) > 0 {
				cut++
			}
		}
		if !first {
			honest()
		}
		if cut == 0 && first {
			t.Error("there is so much room that nothing had to be shared")
		}
		for id, want := range map[string]int{"sibling": 200, "friend": 100, "of-hub": 100, "of-hub-too": 100} {
			if p := b.Progress(id); p.Entries != want+1 {
				t.Errorf("honest ones first %t: of %s %d entries are left", first, id, p.Entries)
			}
		}
		for n := range 200 {
			if takesAll(t, b, fmt.Sprintf("late-%03d", n), "hub", 0, 0) > 0 {
				t.Fatalf("late cluster %d finds no room for its Cluster entry", n)
			}
		}
		checkInvariants(t, b.state)
	}
}

// TestDigestSharesOnce: origins of which nothing found room have their shares computed once, and not in each digest.
func TestDigestSharesOnce(t *testing.T) {
	shared := 0
	ring := newRing()
	b, err := New(Options{
		Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: ring, Limits: Limits{TotalBytes: 40_000, Bytes: 40_000},
		Parent: func(origin string) string {
			if origin == "full-0" { // asked once each time
				shared++
			}
			return "b"
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		takesAll(t, b, fmt.Sprint("full-", n), "", 5, 700)
	}
	for n := range 10 {
		id := fmt.Sprint("empty-", n)
		ring.keys[id] = keyOf(id)
		msg := publish(t, newReplica(t, id, 1), Key{KindCluster, id}, Live, strings.Repeat("x", 6000))[0]
		if _, _, err := b.Merge(msg, ""); !errors.Is(err, ErrFull) {
			t.Fatalf("%s: %v", id, err)
		}
	}
	b.Digest()
	shared = 0
	for range 10 {
		b.digest = nil
		b.Digest()
	}
	if shared > 0 {
		t.Errorf("shared anew %d times", shared)
	}
}

// TestWhoGaveWayComesBack: what gave way to another origin is told to subscribers, is called absent by nobody, is not asked for while
// there is no room, and comes back when there is some.
func TestWhoGaveWayComesBack(t *testing.T) {
	b := limited(t, "b", Limits{TotalBytes: 20_000, Bytes: 20_000}, "early", "late")
	var told []Change
	b.Subscribe(func(changes []Change) { told = append(told, changes...) })
	fill := func(id string, epoch uint64, rules int) *Replica {
		a := newReplica(t, id, epoch)
		publish(t, a, Key{KindCluster, id}, Live, "cluster")
		for n := range rules {
			publish(t, a, rule(fmt.Sprint("r", n)), Live, strings.Repeat("x", 800))
		}
		a.Complete()
		for range 3 {
			pullFull(t, b, a)
		}
		return a
	}
	early := fill("early", 1, 18)
	if p := b.Progress("early"); !p.Complete {
		t.Fatalf("what is unused is not lent: %+v", p)
	}
	told = nil
	fill("late", 1, 9)
	p, late := b.Progress("early"), b.Progress("late")
	if !late.Complete || p.Complete || p.Entries < 9 || p.Entries > 18 {
		t.Errorf("of the one %+v, of the other %+v", p, late)
	}
	if !slices.Contains(told, Change{Origin: "early"}) || b.Absent(rule("r17"), "early") || b.Absent(rule("none"), "early") {
		t.Errorf("told %v; absent %t", told, b.Absent(rule("r17"), "early"))
	}
	if _, ok := b.Lookup(Key{KindCluster, "early"}, "early"); !ok || lacks(t, b, early) || pullFull(t, b, early) > 0 {
		t.Error("its Cluster entry went first, or it is asked for again")
	}
	fill("late", 2, 1)
	for range 3 {
		pullFull(t, b, early)
	}
	if p := b.Progress("early"); !p.Complete || p.Entries != 19 {
		t.Errorf("with room again: %+v", p)
	}
}

// TestSwapMakesRoom: what was refused to a cluster that was introduced comes after a swap with it, though it has nothing new
// to say.
func TestSwapMakesRoom(t *testing.T) {
	b := limited(t, "b", Limits{TotalBytes: 4 << 20, Bytes: 1 << 20})
	for n := range 40 {
		takesAll(t, b, fmt.Sprintf("invented-%02d", n), "bad", 40, 7<<10)
	}
	friend := newReplica(t, "friend", 1)
	publish(t, friend, Key{KindCluster, "friend"}, Live, "cluster")
	for n := range 30 {
		publish(t, friend, rule(fmt.Sprint("r", n)), Live, strings.Repeat("x", 7<<10))
	}
	friend.Complete()
	ring := b.keyring.(*ring)
	ring.keys["friend"], ring.via["friend"] = keyOf("friend"), "bad"
	pullFull(t, b, friend)
	if b.Progress("friend").Refused == 0 {
		t.Fatal("nothing was refused")
	}
	delete(ring.via, "friend")
	b.Reshare()
	for range 3 {
		pullFull(t, b, friend)
	}
	if p := b.Progress("friend"); !p.Complete {
		t.Errorf("after the swap: %+v", p)
	}
}

// Withdrawals outlive their epochs, but not without bound; what is let go of them is not
// taken for absent.
func TestWithdrawalsAreBounded(t *testing.T) {
	b, err := New(Options{Self: "b", PrivateKey: testKey("b"), Epoch: 1, Keyring: newRing("a"), Limits: Limits{Entries: 3, Bytes: 10_000}})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint64(4) {
		a := newReplica(t, "a", epoch+1)
		name := string(rune('p' + epoch))
		merge(t, b, publish(t, a, rule(name), Withdrawn, "x")...)
		merge(t, b, a.Complete()...)
	}
	last := newReplica(t, "a", 5)
	merge(t, b, last.Complete()...)
	if diff := cmp.Diff([]string{"(p=x)", "(q=x)", "(r=x)"}, payloads(b, "a")); diff != "" {
		t.Error(diff)
	}
	if b.Absent(rule("s"), "a") {
		t.Error("a withdrawal that was let go counts as absent")
	}
}

// A withdrawal that replaces another and finds no room leaves the other one in place.
func TestWithdrawalWithoutRoomChangesNothing(t *testing.T) {
	s := newState("observer", Limits{Bytes: 1000})
	say := func(epoch uint64, payload string) [][]byte {
		a := newReplica(t, "a", epoch)
		return slices.Concat(publish(t, a, rule("r"), Withdrawn, payload), a.Complete())
	}
	small, large := say(1, "x"), say(2, strings.Repeat("x", 900))
	deliver(t, s, small...)
	deliver(t, s, newReplica(t, "a", 3).Complete()...)
	before, digest := contents(s), s.digest().hash
	deliver(t, s, large[0])
	if diff := cmp.Diff(before, contents(s)); diff != "" || s.digest().hash != digest {
		t.Errorf("after a withdrawal without room: %s", diff)
	}
	deliver(t, s, say(2, "xy")[0])
	if got := s.origin("a").withdrawn[rule("r")]; got == nil || string(got.Payload) != "xy" || s.digest().hash == digest {
		t.Errorf("after one with room: %v", contents(s))
	}
}
