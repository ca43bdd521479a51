// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"

	"github.com/roster-mesh/roster/replica/removalguard"
)

// Keyring knows the pinned key of each origin. It is called without locks held.
type Keyring interface {
	// Key returns the pinned key of an origin.
	Key(origin string) (ed25519.PublicKey, bool)
	// Introduce pins the key of an unknown origin, whose self-signed Cluster entry came from
	// the pinned member introducer. An error refuses it.
	Introduce(origin string, key ed25519.PublicKey, introducer string) error
	// Remove ends the pin of a key for an origin, and refuses it from then on. left says that the origin said so itself,
	// with that key; successor is the key that it goes on under, if it named one. ended says that a pin of the origin
	// ended: that of the key, or that of another one, whom nobody admitted after such a removal.
	Remove(origin string, key, successor ed25519.PublicKey, left bool) (ended bool)
	// Sponsor says on whose word the key of an origin is pinned, "" for a person's; or where it is not, on whose it would be if
	// the member from brought it, "" for nobody's.
	Sponsor(origin string, key ed25519.PublicKey, from string) (by string, pinned bool)
}

// Options are what a replica starts with.
type Options struct {
	Self       string             // our clusterID
	PrivateKey ed25519.PrivateKey // signs our entries
	// Epoch, above every one that was used before, opens the replica without a log; 0 leaves that
	// to [Replica.Open].
	Epoch   uint64
	Keyring Keyring
	// Removed, if set, is told of every removal that was merged, our own ones included, as subscribers are and after
	// them; pinned: the key was, until then, or another one was whose pin ended with it; first: nothing was known of that key's removal before.
	Removed func(r Removal, pinned, first bool)
	// Hold, if set, says what becomes of a removal: one that is held is kept and passed on, and ends nothing; see
	// [Replica.Reconsider]. It is called while no other removal is merged.
	Hold func(Removal) removalguard.Standing
	// OwnEpochSeen, if set, is called after each merge, as subscribers are, for as long as [Replica.OwnEpochSeen] returns
	// an epoch: from when a peer has shown it until Reopen has opened a higher one.
	OwnEpochSeen func(epoch uint64)
	// Removals were recorded by an earlier start. The keyring knows of them already.
	Removals []Removal
	// Broadcast, if set, gets own messages of a replica with a [Log] once they are durable. It is
	// called without locks held, from the goroutine that applies, and must not block.
	Broadcast func(msgs ...[]byte)
	// Note, if set, makes what is to be durable with own entries beside them, at most 4 KiB; with nil
	// the last one stays. It is called with locks held.
	Note   func() []byte
	Limits Limits
	// Parent names the member that admitted an origin, Self where a person here did, "" where nobody knows. It may be called
	// with locks held. Without it all are equal.
	Parent func(origin string) string
}

// Replica is a [State] that is safe for concurrent use, with the key that writes to it.
type Replica struct {
	self      string
	key       ed25519.PrivateKey
	keyring   Keyring
	changed   []func([]Change)
	epochSeen func(uint64)
	decode    func(msg []byte) (*message, error) // decodeMessage, but in tests
	broadcast func(msgs ...[]byte)

	removing removing

	mu     sync.Mutex
	state  *State  // what peers may know
	author *author // nil before Open
	log    Log     // nil when nothing is durable
	notes  notes   // what is durable beside own entries
	digest []byte  // of state; nil when it must be made again
}

// removing is held from looking whether a removed key is pinned to having merged that.
type removing struct {
	sync.Mutex
	told func(r Removal, pinned, first bool)
	hold func(Removal) removalguard.Standing
}

// New returns a replica that holds nothing yet.
func New(o Options) (*Replica, error) {
	switch {
	case !validOrigin(o.Self):
		return nil, fmt.Errorf("clusterID %q is not 1 to %d lower case letters, digits, '-' or '.', as in an object's name", o.Self, MaxOrigin)
	case len(o.PrivateKey) != ed25519.PrivateKeySize:
		return nil, errors.New("replica needs an Ed25519 private key")
	case o.Keyring == nil:
		return nil, errors.New("replica needs a keyring")
	}
	if o.Removed == nil {
		o.Removed = func(Removal, bool, bool) {}
	}
	if o.Hold == nil {
		o.Hold = func(Removal) (inEffect removalguard.Standing) { return inEffect }
	}
	if o.OwnEpochSeen == nil {
		o.OwnEpochSeen = func(uint64) {}
	}
	if o.Broadcast == nil {
		o.Broadcast = func(...[]byte) {}
	}
	if o.Note == nil {
		o.Note = func() []byte { return nil }
	}
	r := &Replica{
		self: o.Self, key: o.PrivateKey, keyring: o.Keyring, removing: removing{told: o.Removed, hold: o.Hold}, epochSeen: o.OwnEpochSeen, decode: decodeMessage,
		broadcast: o.Broadcast, state: newState(o.Self, o.Limits), notes: notes{present: o.Note, news: make(chan struct{})},
	}
	r.state.pool.Parent = o.Parent
	r.state.removals.by.ShareBy(o.Parent)
	for _, removal := range o.Removals {
		m, err := decodeMessage(removal.msg)
		if err != nil || m.removal == nil {
			return nil, fmt.Errorf("a recorded removal of %s: %w", removal.ClusterID, cmp.Or(err, ErrMalformed))
		}
		m.removal.Voucher, m.removal.Introducer, m.removal.Standing = removal.Voucher, removal.Introducer, removal.Standing
		m.removal.sponsor = cmp.Or(removal.Voucher, string(m.removal.ByKey))
		r.state.mergeRemoval(m.removal, false)
	}
	if o.Epoch > 0 {
		if err := r.Open(o.Epoch, nil); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Subscribe has changed told what to read again after entries of other origins were merged. Call it before the first
// merge. All that subscribed are called in that order, in the merging goroutine and before Merge returns, with no lock
// held: they may read the replica, and must not block. Merges at the same time make calls that overlap, in any order; so a
// change does not say what is held, but what to read again, which is at least as new. What [Replica.Apply] takes over from
// an earlier run is told to nobody.
func (r *Replica) Subscribe(changed func([]Change)) { r.changed = append(r.changed, changed) }

// tell calls the subscribers.
func (r *Replica) tell(changes []Change) {
	if len(changes) == 0 {
		return
	}
	for _, changed := range r.changed {
		changed(changes)
	}
}

// Publish says something new of an own object and returns the messages to broadcast: none
// when nothing changed, or when a [Log] must have them first. Deleting what is not published, or is
// withdrawn, changes nothing. The payload is copied.
func (r *Replica) Publish(key Key, status Status, payload []byte) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.author == nil {
		return nil, ErrNotOpen
	}
	msgs, err := r.author.publish(key, status, payload)
	if err != nil {
		return nil, fmt.Errorf("publish %q: %w", key.Name, err)
	}
	return r.logOwnLocked(msgs), nil
}

// Complete says that the whole own set has been announced in this epoch: what was not
// announced, and not withdrawn, is gone. It says nothing the second time.
func (r *Replica) Complete() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.author == nil {
		return nil
	}
	return r.logOwnLocked(r.author.complete())
}

// Reopen opens a higher epoch and announces the whole own set again, with its
// completeness mark if the epoch before had one.
func (r *Replica) Reopen(epoch uint64) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.author == nil {
		return nil, ErrNotOpen
	}
	msgs, err := r.author.reopen(epoch)
	return r.logOwnLocked(msgs), err
}

// TooManyTombstones says that our epoch has more than keep tombstones, and more than other entries. [Replica.Reopen] frees them,
// at every member that proves the new epoch to be complete; whoever was away for however long proves it then.
func (r *Replica) TooManyTombstones(keep int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.author != nil && r.author.tooManyTombstones(keep)
}

// OwnEpochSeen returns the highest own epoch that a peer has shown, validly signed, at or
// above our position; 0 is none. Who sees one opens a higher epoch with [Replica.Reopen].
// Having to do so again and again means that a clone runs.
func (r *Replica) OwnEpochSeen() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.author == nil {
		return 0
	}
	return r.author.seen
}

// Digest says what is held. It opens with a hash of the contents. The result is shared and
// must not be changed.
func (r *Replica) Digest() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.digest == nil {
		d := r.state.digest()
		r.digest = d.encode()
	}
	return r.digest
}

// Lacks says whether the sender of a digest holds something that is missing here.
func (r *Replica) Lacks(digest []byte) (bool, error) {
	d, err := decodeDigest(digest)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.lacks(&d), nil
}

// Delta emits what the sender of a digest lacks, in order: per origin its Cluster entry, the
// entries by number, then its heads. It works on a snapshot, so emit may block; its
// error ends the delta.
func (r *Replica) Delta(digest []byte, emit func(msg []byte) error) error {
	d, err := decodeDigest(digest)
	if err != nil {
		return err
	}
	r.mu.Lock()
	msgs := r.state.delta(&d)
	r.mu.Unlock()
	for _, msg := range msgs {
		if err := emit(msg); err != nil {
			return err
		}
	}
	return nil
}
