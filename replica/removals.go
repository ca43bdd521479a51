// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"

	"github.com/roster-mesh/roster/replica/buckets"
	"github.com/roster-mesh/roster/replica/limits"
)

// Bounds of the removals that are held; about 300 bytes each. One branch takes a part of maxRemovals ([limits.Removals]). One that
// is about a key which is pinned here is taken beyond that, and beyond maxRemovalsBy, and always if a swap has pinned the key:
// whoever fills the set, or invents more members than one may remove, must not be safe from being removed.
const (
	maxRemovals   = 16384
	allRemovals   = maxRemovals + limits.Origins // each pin has a place
	maxRemovalsBy = 2048                         // that one member answers for: it signed them, or brought those of authors that are not pinned
)

// pinning says how the removed key is pinned here, and so how much depends on its removal.
type pinning int

const (
	unknownKey pinning = iota // its key is not pinned here
	introduced                // a member vouched for the key
	swapped                   // a person did
)

// removalsFirst is how many removals a delta begins with at most. Beyond that they go last: of a flood a reader may
// refuse so many that it ends the delta, and it is to have the entries by then.
const removalsFirst = 500

// removals is a set that only grows: of several removals of the same key one is kept ([removalRecord.beats]), so that
// members agree on what to show, and on who may follow. Merging it is commutative, associative and
// idempotent. Nothing takes a removal back, not even the removal of its author: two members that remove each other
// are both removed.
type removals struct {
	held    map[removedKey]*removalRecord
	by      limits.Removals // counts held
	sums    *buckets.Sums
	changes uint64 // counts what was added
}

func bucketOf(about removedKey) int { return buckets.Of(about.cluster + "\x00" + about.key) }

// settled says that a removal changes nothing: what is held is asked about again by [Replica.Reconsider] only, and of this cluster itself.
func (s *removals) settled(r *removalRecord, self string) bool {
	held := s.held[r.about()]
	return held != nil && !r.beats(held) && (!held.Standing.Held || r.By == held.By && r.ByKey.Equal(held.ByKey) && r.ClusterID != self)
}

// room refuses what exceeds the bounds.
func (s *removals) room(r *removalRecord, how pinning) error {
	held := s.held[r.about()]
	if how == swapped || held != nil && held.sponsor == r.sponsor {
		return nil
	}
	full := len(s.held) >= allRemovals || how != introduced && !s.by.Fits(r.counted().Branch())
	if held == nil && full || s.by.Sponsored(r.sponsor) >= maxRemovalsBy && (how != introduced || r.Voucher != "") {
		return fmt.Errorf("%w: removal of %s by %s; at most %d are kept, and %d that one member answers for", ErrFull, r.ClusterID, r.By, maxRemovals, maxRemovalsBy)
	}
	return nil
}

// crowded says that the removals of what a member introduces may find no room: it has invented clusters, and let them go.
func (r *Replica) crowded(by string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.state.removals.by.Fits(by)
}

// put adds a removal that is not known.
func (s *removals) put(r *removalRecord) {
	if old := s.held[r.about()]; old != nil {
		r.Introducer = cmp.Or(r.Introducer, old.Introducer)
		s.by.Drop(old.counted())
	}
	s.held[r.about()] = r
	s.by.Put(r.counted())
	s.sums = nil
	s.changes++
}

// list is ordered by hash.
func (s *removals) list() []*removalRecord {
	return slices.SortedFunc(maps.Values(s.held), func(a, b *removalRecord) int { return bytes.Compare(a.hash[:], b.hash[:]) })
}

// digest is one hash for each bucket, zero for an empty one.
func (s *removals) digest() *buckets.Sums {
	if s.sums != nil {
		return s.sums
	}
	var all [buckets.N][]byte
	for _, r := range s.list() {
		at := bucketOf(r.about())
		all[at] = append(all[at], r.hash[:]...)
	}
	sums := buckets.Sum(all)
	s.sums = &sums
	return s.sums
}

// delta lists what the sender of a digest may lack.
func (s *removals) delta(theirs *buckets.Sums) (msgs [][]byte) {
	ours := s.digest()
	if *ours == *theirs {
		return nil
	}
	for _, r := range s.list() {
		if at := bucketOf(r.about()); ours[at] != theirs[at] {
			msgs = append(msgs, r.msg)
		}
	}
	return msgs
}

// mergeRemoval adds a removal that was checked, or takes another standing of one that is held. If that is in effect, it drops what
// the cluster has published, unless another key is pinned for it and published that.
func (s *State) mergeRemoval(r *removalRecord, pinned bool) (out outcome, first bool) {
	held, kept := s.removals.held[r.about()], r
	first = held == nil || held.Standing.Held && !r.Standing.Held
	if held != nil && !r.beats(held) {
		if r.Standing.Held {
			return outcome{}, false
		}
		again := *held
		kept, again.Standing = &again, r.Standing
	}
	s.removals.put(kept)
	out.fresh = true
	id := r.ClusterID
	if o := s.origins[id]; o != nil && !r.Standing.Held && id != s.self && (!pinned || o.publishedBy(r)) {
		s.forget(id)
		out.changes = []Change{{Key{KindCluster, id}, id}, {Origin: id}}
	}
	return out, first
}

// publishedBy says that what is held of the removed cluster was signed by the removed key.
func (o *origin) publishedBy(r *removalRecord) bool {
	c := o.effective(Key{KindCluster, o.id})
	return c != nil && bytes.Equal(c.PublicKey, r.PublicKey)
}

// SignRemoval makes the statement that a key does not speak for a cluster any more, under our key. It takes effect once it
// is merged, like anybody else's: it should be recorded first. name and ours are what the two clusters are called
// and at is the Unix time, for people.
func (r *Replica) SignRemoval(clusterID string, key []byte, name, ours string, at int64) (Removal, error) {
	rec, err := signRemoval(r.key, Removal{ClusterID: clusterID, PublicKey: bytes.Clone(key), By: r.self, Name: name, ByName: ours, Time: at})
	if err != nil {
		return Removal{}, fmt.Errorf("remove %s: %w", clusterID, err)
	}
	return rec.Removal, nil
}

// SignLeave makes the statement that we leave: our key does not speak for us any more. successor is the key that we go on
// under. It takes effect as that of [Replica.SignRemoval] does.
func (r *Replica) SignLeave(successor ed25519.PublicKey, name string, at int64) (Removal, error) {
	rec, err := signRemoval(r.key, Removal{ClusterID: r.self, PublicKey: r.public(), By: r.self, Name: name, ByName: name, Time: at, Successor: successor})
	if err != nil {
		return Removal{}, fmt.Errorf("leave: %w", err)
	}
	return rec.Removal, nil
}

// Removals lists what is held, ordered by clusterID and key.
func (r *Replica) Removals() []Removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Removal, 0, len(r.state.removals.held))
	for _, rec := range r.state.removals.held {
		out = append(out, rec.Removal)
	}
	slices.SortFunc(out, func(a, b Removal) int {
		return cmp.Or(cmp.Compare(a.ClusterID, b.ClusterID), bytes.Compare(a.PublicKey, b.PublicKey))
	})
	return out
}

// Removal returns the removal of a cluster's key, if one is held.
func (r *Replica) Removal(clusterID string, key []byte) (Removal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.state.removals.held[removedKey{clusterID, string(key)}]; rec != nil {
		return rec.Removal, true
	}
	return Removal{}, false
}

// mergeRemoval merges a removal from a peer, or of our own. A gossiped one counts if its author is pinned; any
// other is taken in the delta of a pinned member only, which vouches for it as for an introduction: its author may
// be gone since.
func (r *Replica) mergeRemoval(rec *removalRecord, introducer string) (fresh, pull bool, err error) {
	r.mu.Lock()
	settled := r.state.removals.settled(rec, r.self)
	authorRemoved := r.state.removals.held[removedKey{rec.By, string(rec.ByKey)}] != nil
	r.mu.Unlock()
	if settled {
		return false, false, nil
	}
	if err := rec.verify(); err != nil {
		return false, false, err
	}
	author, ok := r.keyring.Key(rec.By)
	ours := rec.By == r.self && rec.ByKey.Equal(r.public())
	if rec.By == r.self {
		author, ok = r.public(), true
	}
	if introducer == "" && (!ok || !author.Equal(rec.ByKey)) {
		if authorRemoved {
			return false, false, fmt.Errorf("%w: that of %s, which removes %s", ErrRemoved, rec.By, rec.ClusterID)
		}
		return false, true, fmt.Errorf("%w: %s, which removes %s", ErrUnknownOrigin, rec.By, rec.ClusterID)
	}
	rec.detach()
	if rec.sponsor = string(rec.ByKey); !ok || !author.Equal(rec.ByKey) {
		rec.sponsor, rec.Voucher = introducer, introducer
	}
	return r.admitRemoval(rec, ours)
}

// Reconsider asks again what becomes of a removal that is held, after Options.Hold would answer otherwise, and does that.
func (r *Replica) Reconsider(clusterID string, key []byte) {
	r.mu.Lock()
	rec := r.state.removals.held[removedKey{clusterID, string(key)}]
	r.mu.Unlock()
	if rec != nil {
		again := *rec
		_, _, _ = r.admitRemoval(&again, true)
	}
}

// admitRemoval ends the pin of a key and merges its removal, unless it is held, and tells of it. pinned says that a pin of the cluster
// ended: of several that bring the same removal at once the first alone is told so. It may be that of another key, which is not
// admitted. Of one that is held any further statement is asked about, whatever hash it has: who removes itself first, by way of
// what it invented, must not be safe from others.
func (r *Replica) admitRemoval(rec *removalRecord, ours bool) (fresh, pull bool, err error) {
	r.removing.Lock()
	how := r.pinnedAs(rec)
	r.mu.Lock()
	settled := r.state.removals.settled(rec, r.self) && !ours // a better one came meanwhile
	if !ours {                                                // whatever name it bears: a peer vouches for what anybody signed
		err = r.state.removals.room(rec, how)
	}
	said := rec.Removal
	if held := r.state.removals.held[rec.about()]; held != nil && said.Left() && !held.Left() {
		*rec = *held // it leaves while its removal is held, which takes effect: no successor follows
	}
	r.mu.Unlock()
	if err != nil || settled {
		r.removing.Unlock()
		return false, false, err
	}
	rec.Standing = r.removing.hold(said)
	out, pinned, first := r.enforce(rec, how)
	r.removing.Unlock()
	r.tell(out.changes)
	if out.fresh {
		r.removing.told(rec.Removal, pinned, first)
	}
	return out.fresh, false, nil
}

// pinnedAs says how the removed key is pinned, and notes on whose word.
func (r *Replica) pinnedAs(rec *removalRecord) pinning {
	by, pinned := r.keyring.Sponsor(rec.ClusterID, rec.PublicKey, "")
	switch {
	case !pinned:
		return unknownKey
	case by == "":
		return swapped
	}
	rec.Introducer = by
	return introduced
}

// enforce does what is to become of a removal.
func (r *Replica) enforce(rec *removalRecord, how pinning) (out outcome, pinned, first bool) {
	if !rec.Standing.Held { // first: whoever authenticates from here on is refused
		pinned = r.keyring.Remove(rec.ClusterID, rec.PublicKey, rec.Successor, rec.Left()) || how != unknownKey
	}
	_, still := r.keyring.Key(rec.ClusterID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest = nil
	out, first = r.state.mergeRemoval(rec, still)
	for _, c := range out.changes { // the removal itself is recorded by whoever is told
		if r.log != nil && c.Key == (Key{}) {
			r.log.Append(appendBytes(nil, opForget, []byte(c.Origin)))
		}
	}
	return out, pinned, first
}
