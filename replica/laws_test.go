// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Tiny ranges, or ties never occur.
var (
	originIDs = rapid.SampledFrom([]string{"a", "b"})
	ruleNames = rapid.SampledFrom([]string{"p", "q", "r"})
	texts     = rapid.SampledFrom([]string{"", "1", "2"})
	statuses  = rapid.SampledFrom([]Status{Live, Live, Live, Withdrawn, Deleted})
)

// twins draws what two clusters write that believe to be the same origin, in epochs that
// never complete: anything at all, as far as merging is concerned.
func twins(t *rapid.T) [][]byte {
	var msgs [][]byte
	for range rapid.IntRange(1, 3).Draw(t, "authors") {
		id, epoch := originIDs.Draw(t, "origin"), rapid.Uint64Range(1, maxLayers).Draw(t, "epoch")
		s := newState(id, Limits{})
		a, err := newAuthor(s, testKey(id), epoch)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 6).Draw(t, "entries") {
			m, err := a.publish(rule(ruleNames.Draw(t, "name")), statuses.Draw(t, "status"), payloadFor(t))
			if err != nil {
				continue // a tombstone with a payload
			}
			msgs = append(msgs, m...)
			if rapid.Bool().Draw(t, "head") {
				msgs = append(msgs, a.head().msg)
			}
		}
	}
	return msgs
}

func payloadFor(t *rapid.T) []byte { return []byte(texts.Draw(t, "payload")) }

// history draws all that one honest origin says in its life: restarts that remember
// everything or nothing, complete or half announced epochs. A key that was withdrawn is
// not published again, see the footnote in the package's documentation.
func history(t *rapid.T, id string) [][]byte {
	var msgs [][]byte
	live, withdrawn := map[string][]byte{}, map[string]bool{}
	epoch := uint64(0)
	// Out of order, each epoch may be open; beyond maxLayers of them something is let go.
	for range rapid.IntRange(1, maxLayers).Draw(t, "epochs") {
		epoch += rapid.Uint64Range(1, 2).Draw(t, "step")
		a, err := newAuthor(newState(id, Limits{}), testKey(id), epoch)
		if err != nil {
			t.Fatal(err)
		}
		say := func(name string, status Status, payload []byte) {
			m, err := a.publish(rule(name), status, payload)
			if err != nil {
				t.Fatal(err)
			}
			msgs = append(msgs, m...)
		}
		announced := 0
		half := rapid.IntRange(0, 3).Draw(t, "half") == 0
		for _, name := range []string{"p", "q", "r"} {
			if payload, ok := live[name]; ok && (!half || announced == 0) {
				say(name, Live, payload)
				announced++
			}
		}
		if half {
			continue
		}
		if rapid.Bool().Draw(t, "head before") {
			msgs = append(msgs, a.head().msg)
		}
		msgs = append(msgs, a.complete()...)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			name := ruleNames.Draw(t, "name")
			if withdrawn[name] {
				continue
			}
			switch status := statuses.Draw(t, "status"); status {
			case Live:
				live[name] = payloadFor(t)
				say(name, Live, live[name])
			case Withdrawn:
				delete(live, name)
				withdrawn[name] = true
				say(name, Withdrawn, nil)
			case Deleted:
				delete(live, name)
				say(name, Deleted, nil)
			}
			if rapid.IntRange(0, 3).Draw(t, "head") == 0 {
				msgs = append(msgs, a.head().msg)
			}
		}
	}
	return msgs
}

// shuffled is every message at least once, in any order.
func shuffled(t *rapid.T, msgs [][]byte, label string) [][]byte {
	return permuted(t, slices.Concat(msgs, someOf(t, msgs, label+" again")), label)
}

func permuted(t *rapid.T, msgs [][]byte, label string) [][]byte {
	order := make([]int, len(msgs))
	for i := range order {
		order[i] = i
	}
	out := make([][]byte, len(msgs))
	for i, from := range rapid.Permutation(order).Draw(t, label) {
		out[i] = msgs[from]
	}
	return out
}

func someOf(t *rapid.T, msgs [][]byte, label string) [][]byte {
	var some [][]byte
	for i, pick := range rapid.SliceOfN(rapid.Bool(), len(msgs), len(msgs)).Draw(t, label) {
		if pick {
			some = append(some, msgs[i])
		}
	}
	return some
}

func stateOf(t fatal, msgs ...[]byte) *State {
	s := newState("observer", Limits{})
	deliver(t, s, msgs...)
	return s
}

func same(t fatal, law string, a, b *State) {
	if diff := cmp.Diff(contents(a), contents(b)); diff != "" {
		t.Fatalf("%s: %s", law, diff)
	}
	if a.digest().hash != b.digest().hash {
		t.Fatalf("%s: digests differ", law)
	}
}

// Law 1 for anything that is signed, clones included.
func TestMergeIsASemilattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := twins(t)
		one := stateOf(t, shuffled(t, msgs, "one order")...)
		other := stateOf(t, shuffled(t, msgs, "other order")...)
		same(t, "commutative", one, other)
		deliver(t, one, permuted(t, msgs, "once more")...)
		same(t, "idempotent", one, other)
	})
}

// Law 1 with epochs that complete.
func TestMergeOfHistoriesIsASemilattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := slices.Concat(history(t, "a"), history(t, "b"))
		one := stateOf(t, shuffled(t, msgs, "one order")...)
		other := stateOf(t, shuffled(t, msgs, "other order")...)
		same(t, "commutative", one, other)
		deliver(t, one, permuted(t, msgs, "once more")...)
		same(t, "idempotent", one, other)
	})
}

// join lets a state have everything of another, as by a delta for an empty digest.
func join(t fatal, to, from *State) *State {
	deliver(t, to, from.delta(&digest{})...)
	return to
}

// Law 1, associativity, on states that know a part each and everything together.
func TestJoinIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts [3][][]byte
		for _, msg := range permuted(t, history(t, "a"), "order") {
			for range rapid.IntRange(1, 2).Draw(t, "copies") {
				i := rapid.IntRange(0, 2).Draw(t, "part")
				parts[i] = append(parts[i], msg)
			}
		}
		part := func(i int) *State { return stateOf(t, parts[i]...) }
		left := join(t, join(t, part(0), part(1)), part(2))
		right := join(t, part(0), join(t, part(1), part(2)))
		same(t, "associative", left, right)
	})
}

// holds says that everything of b is held by a or superseded there.
func holds(t fatal, a, b *State) {
	for id, ob := range b.origins {
		oa := a.origin(id)
		for _, r := range ob.all() {
			if r.Epoch < oa.completed && r.Status != Withdrawn || oa.refuses(r.Epoch) && r.Epoch > oa.completed {
				continue
			}
			if got := oa.effective(r.Key); got == nil || got != r && r.supersedes(got) {
				t.Fatalf("%s: %v %d.%d is not held", id, r.Key, r.Epoch, r.Sequence)
			}
		}
		for _, l := range ob.layers {
			if l.head == nil || oa.refuses(l.epoch) {
				continue
			}
			if got := oa.layer(l.epoch); got == nil || got.head == nil || l.head.supersedes(got.head) {
				t.Fatalf("%s: head %d.%d is not held", id, l.epoch, l.head.Sequence)
			}
		}
	}
}

func exchange(t fatal, to, from *State) {
	d := to.digest()
	decoded, err := decodeDigest(d.encode())
	if err != nil {
		t.Fatalf("decode digest: %v", err)
	}
	// no origins are nil in one of them, and empty in the other
	if diff := cmp.Diff(d, decoded, cmp.AllowUnexported(digest{}, originDigest{}, layerDigest{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("digest: %s", diff)
	}
	for _, msg := range from.delta(&decoded) {
		deliver(t, to, msg)
		if m, err := decodeMessage(msg); err == nil && m.head != nil {
			to.checkDelta(m.head)
		}
	}
}

// Law 2: whatever part of a history two members know.
func TestDeltaBringsWhatIsLacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := slices.Concat(history(t, "a"), history(t, "b"))
		a := stateOf(t, permuted(t, someOf(t, all, "a has"), "a")...)
		b := stateOf(t, permuted(t, someOf(t, all, "b has"), "b")...)
		exchange(t, b, a)
		holds(t, b, a)
		exchange(t, a, b)
		holds(t, a, b)
		// With the origin's own word everybody agrees, and nobody asks again.
		whole := stateOf(t, all...)
		for range 2 {
			for _, s := range []*State{a, b} {
				exchange(t, s, whole)
				exchange(t, whole, s)
			}
		}
		for _, s := range []*State{a, b} {
			same(t, "agreement", s, whole)
			d, w := s.digest(), whole.digest()
			if s.lacks(&w) || whole.lacks(&d) {
				t.Fatal("members with equal contents lack something")
			}
		}
	})
}

// Law 2 for clones: members agree after a few exchanges, whatever they started with, as
// long as a head closes the deltas.
func TestDeltaSettlesClones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := twins(t)
		a := stateOf(t, permuted(t, someOf(t, all, "a has"), "a")...)
		b := stateOf(t, permuted(t, someOf(t, all, "b has"), "b")...)
		for _, id := range []string{"a", "b"} {
			for epoch := range uint64(maxLayers) {
				h := signHead(testKey(id), Head{Origin: id, Epoch: epoch + 1, Sequence: 9})
				deliver(t, a, h.msg)
				deliver(t, b, h.msg)
			}
		}
		for range 3 {
			exchange(t, a, b)
			exchange(t, b, a)
		}
		same(t, "agreement", a, b)
		da, db := a.digest(), b.digest()
		if a.lacks(&db) || b.lacks(&da) {
			t.Fatal("members with equal contents lack something")
		}
	})
}

// Lacks never says no to something new. The exception is an old withdrawal: while the
// numbers differ in our favour they explain the difference, and it is found once they
// are equal.
func TestLacksNeverMisses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := history(t, "a")
		a := stateOf(t, permuted(t, someOf(t, all, "a has"), "a")...)
		b := stateOf(t, permuted(t, someOf(t, all, "b has"), "b")...)
		db := b.digest()
		if a.lacks(&db) {
			return
		}
		before := contents(a)
		known := maps.Clone(a.origin("a").withdrawn)
		join(t, a, b)
		a.origin("a").withdrawn = known
		if diff := cmp.Diff(before, contents(a)); diff != "" {
			t.Fatalf("Lacks said no: %s", diff)
		}
	})
}
