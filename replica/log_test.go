// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// memoryLog is a Log whose disk is a slice: what is appended is durable when commit says so.
type memoryLog struct {
	replica *Replica
	durable [][]byte
	queue   [][]byte
	later   int // how many were appended that may wait
	full    error
}

func (l *memoryLog) Append(op []byte) { l.queue = append(l.queue, bytes.Clone(op)) }

func (l *memoryLog) AppendLater(op []byte) {
	l.Append(op)
	l.later++
}

func (l *memoryLog) Wait() error { return l.full }

// commit makes the first n operations that wait durable.
func (l *memoryLog) commit(t fatal, n int) {
	n = min(n, len(l.queue))
	ops := l.queue[:n]
	l.durable, l.queue = append(l.durable, ops...), l.queue[n:]
	if err := l.replica.Apply(ops, true); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// restore is a process that starts with the same disk, of which the first part may be a snapshot.
func restored(t fatal, o Options, snapshot []byte, ops [][]byte) *Replica {
	r, err := New(o)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	if snapshot != nil {
		if err := r.Restore(bytes.NewReader(snapshot)); err != nil {
			t.Fatalf("restore: %v", err)
		}
	}
	if err := r.Apply(ops, false); err != nil {
		t.Fatalf("replay: %v", err)
	}
	return r
}

func snapshotOf(t fatal, r *Replica) []byte {
	var b bytes.Buffer
	if err := r.Snapshot()(&b); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return b.Bytes()
}

// TestSnapshotIsTheState: all that is held and known, of any history, comes back as it was.
func TestSnapshotIsTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newState("z", Limits{Bytes: 4 << 10, TotalBytes: 6 << 10})
		msgs := slices.Concat(history(t, "a"), twins(t))
		for _, msg := range shuffled(t, msgs, "order") {
			m, err := decodeMessage(msg)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m.head != nil:
				s.mergeHead(m.head)
				if rapid.IntRange(0, 3).Draw(t, "closes") == 0 {
					s.checkDelta(m.head)
				}
			default:
				if _, err := s.mergeEntry(m.entry); errors.Is(err, ErrFull) {
					s.checkRefused(m.entry)
				}
			}
		}
		a := &Replica{self: "z", state: s}
		b := &Replica{self: "z", state: newState("z", s.limits)}
		first := snapshotOf(t, a)
		if err := b.Restore(bytes.NewReader(first)); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, b.state)
		if second := snapshotOf(t, b); !bytes.Equal(first, second) {
			t.Fatalf("snapshots of %d and %d bytes", len(first), len(second))
		}
		if !bytes.Equal(a.Digest(), b.Digest()) {
			t.Fatalf("digests differ: %s", cmp.Diff(contents(a.state), contents(b.state)))
		}
		for _, key := range []Key{rule("p"), rule("q"), rule("r")} {
			if a.Absent(key, "a") != b.Absent(key, "a") {
				t.Fatalf("proof of %v differs", key)
			}
		}
	})
}

// TestNoteIsThereBeforeAnythingIsTold: wherever a process ends, the note of what it has told is on its disk.
func TestNoteIsThereBeforeAnythingIsTold(t *testing.T) {
	told, noted := 0, ""
	o := Options{
		Self: "z", PrivateKey: testKey("z"), Keyring: newRing(),
		Note: func() []byte { return []byte(noted) }, Broadcast: func(...[]byte) { told++ },
	}
	r := restored(t, o, nil, nil)
	log := &memoryLog{replica: r}
	if err := r.Open(1, log); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		noted = fmt.Sprint("how far it was ", i)
		publish(t, r, rule("p"), Live, noted)
		for before := told; told == before; {
			log.commit(t, 1)
		}
		if is := string(restored(t, o, nil, log.durable).Note()); is != noted {
			t.Errorf("told of %q with the note %q", noted, is)
		}
		log.commit(t, len(log.queue))
	}
}

// TestNoteIsSavedWithoutAnEntry: SaveNote returns when the present note is durable, and a note of nil leaves the last one.
func TestNoteIsSavedWithoutAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := []byte("first")
		o := Options{Self: "z", PrivateKey: testKey("z"), Keyring: newRing(), Note: func() []byte { return noted }}
		r := restored(t, o, nil, nil)
		if err := r.SaveNote(t.Context()); err != nil {
			t.Fatal("without a log:", err)
		}
		log := &memoryLog{replica: r}
		if err := r.Open(1, log); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			now, want string
			ops       int
		}{{"first", "first", 1}, {"first", "first", 0}, {"", "first", 0}, {"second", "second", 1}} {
			noted = []byte(c.now)
			saved := make(chan error, 1)
			go func() { saved <- r.SaveNote(t.Context()) }()
			synctest.Wait()
			if len(log.queue) != c.ops || len(saved) != 1-c.ops {
				t.Errorf("%q: %d operations, returned before they are durable: %t", c.now, len(log.queue), len(saved) > 0)
			}
			log.commit(t, c.ops)
			if err := <-saved; err != nil || string(restored(t, o, nil, log.durable).Note()) != c.want {
				t.Errorf("%q: the durable note is %q, %v", c.now, r.Note(), err)
			}
		}
		noted = []byte("never on the disk")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 { // also the second time, when it is not appended again
			if err := r.SaveNote(ctx); !errors.Is(err, context.Canceled) {
				t.Error("not durable:", err)
			}
		}
	})
}

// TestAPeersMessageIsDecodedOnce: when it is merged, and not again when it is durable.
func TestAPeersMessageIsDecodedOnce(t *testing.T) {
	r := restored(t, Options{Self: "z", PrivateKey: testKey("z"), Keyring: newRing("a")}, nil, nil)
	decodes := map[string]int{}
	r.decode = func(msg []byte) (*message, error) {
		decodes[string(msg)]++
		return decodeMessage(msg)
	}
	log := &memoryLog{replica: r}
	if err := r.Open(1, log); err != nil {
		t.Fatal(err)
	}
	a := newReplica(t, "a", 1)
	msgs := slices.Concat(publish(t, a, Key{KindCluster, "a"}, Live, "cluster"), publish(t, a, rule("r"), Live, "rule"), a.Complete())
	merge(t, r, msgs...)
	if len(log.queue) != len(msgs) {
		t.Fatalf("%d of %d messages are to be durable", len(log.queue), len(msgs))
	}
	log.commit(t, len(log.queue))
	for _, msg := range msgs {
		if n := decodes[string(msg)]; n != 1 {
			t.Errorf("a message of %s is decoded %d times", Origin(msg), n)
		}
	}
	publish(t, r, rule("own"), Live, "x")
	if log.commit(t, len(log.queue)); len(r.EntriesOf("z", KindRule)) != 1 || r.Progress("z").Sequence != 1 {
		t.Error("an own entry is not taken")
	}
}

// TestReplayIsTheState: what was merged and is durable comes back, wherever a snapshot cuts the log.
func TestReplayIsTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Self: "z", PrivateKey: testKey("z"), Keyring: newRing("a", "b")}
		r := restored(t, o, nil, nil)
		log := &memoryLog{replica: r}
		if err := r.Open(1, log); err != nil {
			t.Fatal(err)
		}
		var snapshot []byte
		for _, msg := range shuffled(t, slices.Concat(history(t, "a"), history(t, "b")), "order") {
			if _, _, err := r.Merge(msg, ""); err != nil {
				t.Fatal(err)
			}
			log.commit(t, rapid.IntRange(0, 2).Draw(t, "commit"))
			if rapid.IntRange(0, 9).Draw(t, "snapshot") == 0 {
				snapshot, log.durable = snapshotOf(t, r), nil
			}
		}
		log.commit(t, len(log.queue))
		again := restored(t, o, snapshot, log.durable)
		checkInvariants(t, again.state)
		if diff := cmp.Diff(contents(r.state), contents(again.state)); diff != "" {
			t.Fatal(diff)
		}
		for _, origin := range []string{"a", "b"} {
			was, is := r.Progress(origin), again.Progress(origin)
			if was.Completed != is.Completed || was.Complete && !is.Complete || is.Epoch != was.Epoch {
				t.Fatalf("%s: %+v became %+v", origin, was, is)
			}
		}
	})
}

// TestReplayRefusesNothing: what was merged and is durable finds room in an agent that only follows the log, too, which
// knows of nobody that a person admitted it.
func TestReplayRefusesNothing(t *testing.T) {
	limits := Limits{TotalBytes: 4 << 20, Bytes: 1 << 20}
	o := Options{Self: "z", PrivateKey: testKey("z"), Keyring: newRing(), Limits: limits}
	friends := newRing()
	leads := o
	leads.Keyring = friends
	r := restored(t, leads, nil, nil)
	log := &memoryLog{replica: r}
	if err := r.Open(1, log); err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		id := fmt.Sprintf("friend-%02d", n)
		friends.keys[id] = keyOf(id) // of a swap
		a := newReplica(t, id, 1)
		msgs := publish(t, a, Key{KindCluster, id}, Live, "cluster")
		for i := range 40 {
			msgs = append(msgs, publish(t, a, rule(fmt.Sprint("r", i)), Live, strings.Repeat("x", 7<<10))...)
		}
		for _, msg := range msgs {
			if _, _, err := r.Merge(msg, ""); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		log.commit(t, len(log.queue))
	}
	follows := restored(t, o, nil, log.durable)
	checkInvariants(t, follows.state)
	if diff := cmp.Diff(contents(r.state), contents(follows.state)); diff != "" {
		t.Fatalf("what the log has is not what follows it: %.2000s", diff)
	}
}

// TestOwnEntriesWaitForTheDisk: nobody hears of a number before it is durable, and after a crash the
// numbers go on where those end that anybody can have heard of.
func TestOwnEntriesWaitForTheDisk(t *testing.T) {
	var sent [][]byte
	o := Options{
		Self: "a", PrivateKey: testKey("a"), Keyring: newRing("a"),
		Broadcast: func(msgs ...[]byte) { sent = append(sent, msgs...) },
	}
	r := restored(t, o, nil, nil)
	if _, err := r.Publish(rule("p"), Live, nil); !errors.Is(err, ErrNotOpen) {
		t.Fatalf("published before it was open: %v", err)
	}
	log := &memoryLog{replica: r}
	if err := r.Open(3, log); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p", "q", "r"} {
		if msgs := publish(t, r, rule(name), Live, "1"); len(msgs) > 0 {
			t.Fatal("an entry is not durable and was to be broadcast")
		}
	}
	log.commit(t, 2)
	peer := newReplica(t, "b", 1, "a")
	pullFrom(t, peer, r)
	if got := len(peer.Entries(KindRule)); got != 2 || len(sent) != 2 {
		t.Fatalf("a peer got %d entries and %d were broadcast, when 2 are durable", got, len(sent))
	}
	if got := len(r.EntriesOf("a", KindRule)); got != 3 {
		t.Fatalf("%d own entries", got)
	}
	// The process dies: the third entry was never said, and its number is free.
	again := restored(t, o, nil, log.durable)
	if got := again.LastEpoch(); got != 3 {
		t.Fatalf("epoch %d is the last one", got)
	}
	if err := again.Open(2, &memoryLog{}); !errors.Is(err, ErrEpoch) {
		t.Fatalf("an earlier epoch: %v", err)
	}
	log = &memoryLog{replica: again}
	if err := again.Open(3, log); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p", "q"} {
		publish(t, again, rule(name), Live, "1")
	}
	if len(log.queue) > 0 {
		t.Fatal("what did not change is said again")
	}
	publish(t, again, rule("s"), Live, "2")
	log.commit(t, 1)
	if p := again.Progress("a"); p.Epoch != 3 || p.Sequence != 3 {
		t.Fatalf("%+v", p)
	}
	if _, _, err := peer.Merge(sent[2], ""); err != nil || len(peer.Entries(KindRule)) != 3 || len(peer.Clones()) > 0 {
		t.Fatalf("the peer holds %v, %v, clones %v", payloads(peer, "a"), err, peer.Clones())
	}
}

// TestMergeFailsWithTheDisk: nothing is taken, and so forwarded, that a crash would take back for ever.
func TestMergeFailsWithTheDisk(t *testing.T) {
	errDisk := errors.New("disk")
	r := restored(t, Options{Self: "b", PrivateKey: testKey("b"), Keyring: newRing("a", "b")}, nil, nil)
	if err := r.Open(1, &memoryLog{replica: r, full: errDisk}); err != nil {
		t.Fatal(err)
	}
	msgs := publish(t, newReplica(t, "a", 1), rule("p"), Live, "1")
	if _, _, err := r.Merge(msgs[0], ""); !errors.Is(err, errDisk) {
		t.Fatalf("merge: %v", err)
	}
}

func TestForget(t *testing.T) {
	o := Options{Self: "b", PrivateKey: testKey("b"), Keyring: newRing("a", "b")}
	r := restored(t, o, nil, nil)
	log := &memoryLog{replica: r}
	if err := r.Open(1, log); err != nil {
		t.Fatal(err)
	}
	merge(t, r, publish(t, newReplica(t, "a", 1), rule("p"), Live, "1")...)
	r.Forget("a")
	r.Forget("a")
	log.commit(t, 9)
	for _, r := range []*Replica{r, restored(t, o, nil, log.durable)} {
		if _, held := r.Lookup(rule("p"), "a"); held || r.Progress("a") != (Progress{}) {
			t.Fatal("something is held still")
		}
		checkInvariants(t, r.state)
	}
}

// TestRemovalOnDisk: what a removed key signed does not come back with the disk. The removal itself is recorded elsewhere.
func TestRemovalOnDisk(t *testing.T) {
	o := Options{Self: "b", PrivateKey: testKey("b"), Keyring: newRing("a", "b")}
	r := restored(t, o, nil, nil)
	log := &memoryLog{replica: r}
	if err := r.Open(1, log); err != nil {
		t.Fatal(err)
	}
	a := newReplica(t, "a", 1)
	merge(t, r, publish(t, a, rule("p"), Live, "1")...)
	log.commit(t, 9)
	shot := snapshotOf(t, r)
	removal, err := r.SignRemoval("a", testKey("a").Public().(ed25519.PublicKey), "a", "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	merge(t, r, removal.msg)
	log.commit(t, 9)
	o.Removals = []Removal{removal}
	for _, r := range []*Replica{restored(t, o, nil, log.durable), restored(t, o, shot, log.durable[1:])} {
		if _, held := r.Lookup(rule("p"), "a"); held {
			t.Error("a removed cluster's rule is back")
		}
		if len(r.Removals()) != 1 {
			t.Error("the removal is gone")
		}
	}
}

func FuzzRestore(f *testing.F) {
	a := newReplica(f, "a", 1)
	publish(f, a, rule("p"), Live, "1")
	a.Complete()
	f.Add(snapshotOf(f, a))
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		r := restored(t, Options{Self: "b", PrivateKey: testKey("b"), Keyring: newRing("a")}, nil, nil)
		if err := r.Restore(bytes.NewReader(snapshot)); err != nil {
			return
		}
		r.Digest()
		r.Progress("a")
		for _, msg := range publish(t, newReplica(t, "a", 2), rule("p"), Live, "1") {
			_, _, _ = r.Merge(msg, "")
		}
	})
}

func FuzzApply(f *testing.F) {
	for _, msg := range publish(f, newReplica(f, "a", 1), rule("p"), Live, "1") {
		f.Add(appendBytes(nil, opMessage, msg))
	}
	f.Fuzz(func(t *testing.T, op []byte) {
		r := restored(t, Options{Self: "b", PrivateKey: testKey("b"), Keyring: newRing("a")}, nil, nil)
		_ = r.Apply([][]byte{op}, false)
		r.Digest()
	})
}
