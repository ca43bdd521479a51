// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/roster-mesh/roster/replica/lthash"
)

// testKey returns the same key for the same clusterID, always.
func testKey(id string) ed25519.PrivateKey {
	if key, ok := testKeys.Load(id); ok {
		return key.(ed25519.PrivateKey)
	}
	seed := sha256.Sum256([]byte("test key of " + id))
	key := ed25519.NewKeyFromSeed(seed[:])
	testKeys.Store(id, key)
	return key
}

// testKeys are those that were made, which takes time.
var testKeys sync.Map

// ring is a Keyring that knows some origins and introduces the others, or refuses to.
type ring struct {
	mu      sync.Mutex
	keys    map[string]ed25519.PublicKey
	via     map[string]string
	removed map[string]bool
	refuse  error
}

func newRing(known ...string) *ring {
	r := &ring{keys: make(map[string]ed25519.PublicKey), via: make(map[string]string)}
	for _, id := range known {
		r.keys[id] = testKey(id).Public().(ed25519.PublicKey)
	}
	return r
}

func (r *ring) Key(origin string) (ed25519.PublicKey, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, ok := r.keys[origin]
	return key, ok
}

func (r *ring) Introduce(origin string, key ed25519.PublicKey, introducer string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	if r.removed[origin+string(key)] {
		return ErrRemoved
	}
	r.keys[origin], r.via[origin] = key, introducer
	return nil
}

func (r *ring) Sponsor(origin string, key ed25519.PublicKey, from string) (by string, pinned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[origin] == nil || !r.keys[origin].Equal(key) {
		return from, false
	}
	return r.via[origin], true
}

// parent is who introduced an origin, as the tree of [Options.Parent] has it for me.
func (r *ring) parent(me string) func(string) string {
	return func(origin string) string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return cmp.Or(r.via[origin], me)
	}
}

func (r *ring) Remove(origin string, key, _ ed25519.PublicKey, _ bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removed == nil {
		r.removed = map[string]bool{}
	}
	r.removed[origin+string(key)] = true
	before := len(r.keys)
	maps.DeleteFunc(r.keys, func(id string, held ed25519.PublicKey) bool { return id == origin && held.Equal(key) })
	return len(r.keys) < before
}

func newReplica(t testing.TB, id string, epoch uint64, known ...string) *Replica {
	t.Helper()
	r, err := New(Options{Self: id, PrivateKey: testKey(id), Epoch: epoch, Keyring: newRing(known...)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func rule(name string) Key { return Key{KindRule, name} }

func publish(t testing.TB, r *Replica, key Key, status Status, payload string) [][]byte {
	t.Helper()
	msgs, err := r.Publish(key, status, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return msgs
}

// merge delivers messages as gossip and returns the flags of the last one.
func merge(t testing.TB, r *Replica, msgs ...[]byte) (fresh, pull bool) {
	t.Helper()
	for _, msg := range msgs {
		var err error
		if fresh, pull, err = r.Merge(msg, ""); err != nil {
			t.Fatal(err)
		}
	}
	return fresh, pull
}

// pullFrom lets to fetch from a peer what it lacks, and says whether the last message asked for
// more.
func pullFrom(t testing.TB, to, peer *Replica) (again bool) {
	t.Helper()
	err := peer.Delta(to.Digest(), func(msg []byte) error {
		_, pull, err := to.Merge(msg, peer.self)
		again = pull
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func lacks(t testing.TB, r, peer *Replica) bool {
	t.Helper()
	lacks, err := r.Lacks(peer.Digest())
	if err != nil {
		t.Fatal(err)
	}
	return lacks
}

// payloads lists what is in force of an origin as name=payload, withdrawn in parentheses.
func payloads(r *Replica, origin string) []string {
	var out []string
	for _, e := range r.Entries(KindRule) {
		if e.Origin != origin {
			continue
		}
		s := e.Key.Name + "=" + string(e.Payload)
		if e.Status == Withdrawn {
			s = "(" + s + ")"
		}
		out = append(out, s)
	}
	return out
}

// contents is everything that two members must agree on, readable for a difference.
func contents(s *State) map[string][]string {
	all := make(map[string][]string)
	for id, o := range s.origins {
		var lines []string
		for _, r := range o.all() {
			lines = append(lines, fmt.Sprintf("%d.%d %v status %d %x", r.Epoch, r.Sequence, r.Key, r.Status, r.hash[:4]))
		}
		for _, l := range o.layers {
			if l.head != nil {
				lines = append(lines, fmt.Sprintf("%d.%d head complete=%t %x", l.epoch, l.head.Sequence, l.head.Complete, l.head.hash[:4]))
			}
		}
		if len(lines) > 0 {
			slices.Sort(lines)
			all[id] = lines
		}
	}
	return all
}

// deliver merges signed messages into a pure state.
func deliver(t fatal, s *State, msgs ...[]byte) {
	for _, msg := range msgs {
		m, err := decodeMessage(msg)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if m.head != nil {
			s.mergeHead(m.head)
		} else if _, err := s.mergeEntry(m.entry); err != nil {
			t.Fatalf("merge: %v", err)
		}
		checkInvariants(t, s)
	}
}

type fatal interface {
	Fatalf(format string, args ...any)
}

func checkInvariants(t fatal, s *State) {
	total := 0
	for _, o := range s.origins {
		last := uint64(0)
		for _, l := range o.layers {
			if l.epoch <= last || l.epoch < o.completed {
				t.Fatalf("layer %d after %d, completed %d", l.epoch, last, o.completed)
			}
			last = l.epoch
			if l.frontier > l.highest || l.proven > l.frontier {
				t.Fatalf("epoch %d: proven %d, frontier %d, highest %d", l.epoch, l.proven, l.frontier, l.highest)
			}
			var want lthash.Set
			size, dead := 0, 0
			for _, r := range l.records {
				want.Add(r.id)
				size += len(r.msg)
				dead += r.tombstones()
			}
			if want != l.set || size != l.size || dead != l.tombstones {
				t.Fatalf("epoch %d: set, size or tombstones are not that of the records", l.epoch)
			}
			for n := range maps.Keys(l.pending) {
				if n <= l.frontier {
					t.Fatalf("epoch %d: %d is pending at frontier %d", l.epoch, n, l.frontier)
				}
			}
		}
		kept := 0
		for key, r := range o.withdrawn {
			kept += len(r.msg)
			if r.Status != Withdrawn || r.Epoch >= o.completed || o.base().records[key] != nil {
				t.Fatalf("%v is kept as withdrawn", key)
			}
		}
		for key, r := range o.evicted {
			kept += len(r.msg)
			if r.Epoch <= o.completed || o.layer(r.Epoch) != nil {
				t.Fatalf("%v is kept as evicted", key)
			}
		}
		if kept != o.keptBytes {
			t.Fatalf("%d bytes are kept, counted as %d", kept, o.keptBytes)
		}
		if o.id != s.self {
			total += o.used()
			if o.used() > o.limits.Bytes || s.pool.Used(o.id) != o.used() {
				t.Fatalf("%s uses %d bytes, counted as %d", o.id, o.used(), s.pool.Used(o.id))
			}
		}
	}
	if total != s.pool.Sum() || total > s.limits.TotalBytes {
		t.Fatalf("%d bytes in total, counted as %d, of %d", total, s.pool.Sum(), s.limits.TotalBytes)
	}
}
