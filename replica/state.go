// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"maps"
	"slices"

	"github.com/roster-mesh/roster/replica/admission"
	"github.com/roster-mesh/roster/replica/limits"
	"github.com/roster-mesh/roster/replica/shares"
)

// maxLayers bounds the epochs kept of one origin: the completed one, and the newest of
// those that were opened since and not completed.
const maxLayers = 3

// Change names what a subscriber must read again. A zero Key means that what is known of
// the origin's whole set changed (a completeness mark was proven, a gap closed), so that
// [Replica.Absent] may answer differently for any of its keys.
type Change struct {
	Key    Key
	Origin string
}

// Clone is the newest sign of two clusters that write as one origin.
type Clone struct {
	Origin          string
	Epoch, Sequence uint64
}

// State is the pure replica: what is held of every origin. It trusts its caller to have
// checked signatures, and it is not safe for concurrent use.
type State struct {
	self      string
	limits    Limits
	origins   map[string]*origin
	sorted    []string    // their names, unless there are more of them now
	pool      shares.Pool // the bytes of all origins but ourselves
	displaced []Change    // what gave way to others since it was last told
	note      []byte      // see [Options]

	removals removals
	awaited  admission.Awaited
}

// origin is what is held of one origin.
//
// Invariants: layers ascend and have no epoch below completed; withdrawn holds entries of
// lower epochs whose keys the completed layer does not have; evicted holds entries of epochs above completed and
// below those of the other layers.
type origin struct {
	id             string
	state          *State
	limits         Limits
	layers         []*layer
	withdrawn      map[Key]*record
	evicted        map[Key]*record // in force with epochs that made room for newer ones: shown, and not told to others
	keptBytes      int             // bytes of withdrawn and evicted
	completed      uint64          // epoch whose announcement is proven; 0 is none
	forgotten      uint64          // newest epoch above completed of which something was let go
	withdrawalLost bool            // a withdrawal was let go: what is not held may be withdrawn, for ever
	clone          *Clone
	mismatches     uint64
	refused        uint64   // times that something found no room
	roomNeeded     int      // bytes that would have been enough for some of it; 0 is nothing refused
	summary        *summary // of all records; nil when it must be computed again
}

// outcome is what a merge did.
type outcome struct {
	fresh   bool // contents changed
	gap     bool // the origin has given out numbers that are not held
	changes []Change
}

func newState(self string, l Limits) *State {
	l = l.OrDefault()
	return &State{self: self, limits: l, origins: make(map[string]*origin), pool: shares.Pool{Total: l.TotalBytes, Root: self}, removals: removals{held: map[removedKey]*removalRecord{}, by: limits.NewRemovals(maxRemovals, self)}}
}

func (s *State) origin(id string) *origin {
	o := s.origins[id]
	if o == nil {
		o = &origin{id: id, state: s, limits: s.limits, withdrawn: make(map[Key]*record)}
		s.origins[id] = o
	}
	return o
}

// ids returns the origins in order. The result must not be changed.
func (s *State) ids() []string {
	if len(s.sorted) != len(s.origins) {
		s.sorted = slices.Sorted(maps.Keys(s.origins))
	}
	return s.sorted
}

func (o *origin) layer(epoch uint64) *layer {
	for _, l := range o.layers {
		if l.epoch == epoch {
			return l
		}
	}
	return nil
}

// base is the layer of the completed epoch, nil before there is one.
func (o *origin) base() *layer {
	if o.completed > 0 {
		return o.layer(o.completed)
	}
	return nil
}

// refuses says that an epoch is over, or older than all that are still worth a layer.
func (o *origin) refuses(epoch uint64) bool {
	return epoch < o.completed ||
		len(o.layers) >= maxLayers && o.layer(epoch) == nil && epoch < o.layers[o.oldestOpen()].epoch
}

// oldestOpen is the index of the oldest layer that is not completed.
func (o *origin) oldestOpen() int {
	if o.base() != nil {
		return 1
	}
	return 0
}

// open returns the layer of an epoch that is not refused. When an origin has opened too
// many epochs without completing one, the oldest of these makes room.
func (o *origin) open(epoch uint64) *layer {
	if l := o.layer(epoch); l != nil {
		return l
	}
	if len(o.layers) >= maxLayers {
		o.evict(o.layers[o.oldestOpen()])
		o.drop(o.oldestOpen())
	}
	l := newLayer(epoch)
	o.layers = append(o.layers, l)
	slices.SortFunc(o.layers, func(a, b *layer) int { return cmp.Compare(a.epoch, b.epoch) })
	return l
}

// evict remembers what was in force with a layer that is let go: what is older must not be shown instead, and a
// withdrawal is to outlive its epoch.
func (o *origin) evict(l *layer) {
	if o.evicted == nil {
		o.evicted = make(map[Key]*record)
	}
	for key, r := range l.records {
		held := o.evicted[key]
		if held == nil && len(o.evicted) >= o.limits.Entries {
			o.withdrawalLost = o.withdrawalLost || r.Status == Withdrawn
			continue
		}
		if o.keptBytes += len(r.msg); held != nil {
			o.keptBytes -= len(held.msg)
		}
		o.evicted[key] = r
	}
}

// forgetEvicted forgets what evict remembered.
func (o *origin) forgetEvicted() {
	for _, r := range o.evicted {
		o.keptBytes -= len(r.msg)
	}
	o.evicted = nil
}

func holdsWithdrawn(records map[Key]*record) bool {
	for _, r := range records {
		if r.Status == Withdrawn {
			return true
		}
	}
	return false
}

// drop lets a layer go.
func (o *origin) drop(index int) {
	o.forgotten = max(o.forgotten, o.layers[index].epoch)
	o.layers = slices.Delete(o.layers, index, index+1)
	o.summary = nil
}

// effective is the record in force for a key: the highest number held.
func (o *origin) effective(key Key) *record {
	evicted := o.evicted[key]
	for _, l := range slices.Backward(o.layers) {
		if evicted != nil && evicted.Epoch > l.epoch {
			return evicted
		}
		if r := l.records[key]; r != nil {
			return r
		}
	}
	if evicted != nil {
		return evicted
	}
	return o.withdrawn[key]
}

// mergeEntry merges a verified entry. The only error is [ErrFull].
func (s *State) mergeEntry(r *record) (outcome, error) {
	o := s.origin(r.Origin)
	defer s.count(o)
	if r.Epoch < o.completed {
		return o.mergeOld(r), nil
	}
	if o.refuses(r.Epoch) {
		o.forgotten = max(o.forgotten, r.Epoch)
		return outcome{}, nil
	}
	l := o.open(r.Epoch)
	held, behind := l.records[r.Key], l.behind()
	if held != nil && !r.supersedes(held) {
		if r.hash != held.hash && r.Sequence == held.Sequence {
			o.reportClone(r.Epoch, r.Sequence)
		}
		l.receive(r.Sequence)
		return o.conclude(l, behind, outcome{}), nil
	}
	if err := o.room(l, r, held); err != nil {
		l.refused = max(l.refused, r.Sequence)
		return outcome{}, err
	}
	// An honest origin gives a number out once, and what is at or below its frontier is
	// held or superseded. Whatever is neither has a twin.
	if r.Sequence <= l.frontier {
		o.reportClone(r.Epoch, r.Sequence)
	}
	l.put(r)
	o.summary = nil
	if r.Epoch == o.completed {
		o.forgetWithdrawal(r.Key)
	}
	out := outcome{fresh: true}
	if o.effective(r.Key) == r {
		out.changes = []Change{{r.Key, o.id}}
	}
	out = o.conclude(l, behind, out)
	out.gap = out.gap || l.wants(r.Sequence)
	return out, nil
}

// mergeOld merges an entry of an epoch that is over. It is dead, but for what it says of
// a withdrawal: only that outlives its epoch, and an entry after it ends it.
func (o *origin) mergeOld(r *record) outcome {
	held := o.withdrawn[r.Key]
	switch {
	case o.base().records[r.Key] != nil,
		held == nil && r.Status != Withdrawn,
		held != nil && !r.supersedes(held),
		!o.keepWithdrawal(r):
		return outcome{}
	}
	o.summary = nil
	return outcome{fresh: true, changes: []Change{{r.Key, o.id}}}
}

// keepWithdrawal remembers what an entry says of a withdrawal. What finds no room changes nothing, and
// then nothing of the origin counts as absent until it completes another epoch.
func (o *origin) keepWithdrawal(r *record) bool {
	if r.Status != Withdrawn {
		o.forgetWithdrawal(r.Key)
		return true
	}
	entries, more := len(o.withdrawn)+1, len(r.msg)
	if held := o.withdrawn[r.Key]; held != nil {
		entries, more = entries-1, more-len(held.msg)
	}
	if entries > o.limits.Entries || more > 0 && !o.makeWay(more) {
		o.noteRefused(max(more, 1))
		o.forgotten = max(o.forgotten, o.completed)
		return false
	}
	o.forgetWithdrawal(r.Key)
	o.withdrawn[r.Key] = r
	o.keptBytes += len(r.msg)
	return true
}

// forgetWithdrawal forgets a withdrawal.
func (o *origin) forgetWithdrawal(key Key) {
	if r := o.withdrawn[key]; r != nil {
		o.keptBytes -= len(r.msg)
		delete(o.withdrawn, key)
	}
}

// mergeHead merges a verified head.
func (s *State) mergeHead(h *headRecord) outcome {
	o := s.origin(h.Origin)
	defer s.count(o)
	if o.refuses(h.Epoch) {
		return outcome{}
	}
	l := o.open(h.Epoch)
	if l.head != nil && h.hash != l.head.hash && h.compareNumber(l.head) == 0 {
		o.reportClone(h.Epoch, h.Sequence)
	}
	var out outcome
	behind := l.behind()
	if l.head == nil || h.supersedes(l.head) {
		l.head = h
		out.fresh = true
	}
	out = o.conclude(l, behind, out)
	out.gap = l.wants(h.Sequence) || l.mismatch && l.doubt != abandoned
	return out
}

// conclude draws the conclusions of a change to a layer; behind is what [layer.behind] said
// before it.
func (o *origin) conclude(l *layer, behind bool, out outcome) outcome {
	if l.checkClaims() {
		o.mismatches++
		out.gap = true
	}
	if l.epoch > o.completed && l.complete() {
		out.changes = append(out.changes, o.complete(l)...)
		return out
	}
	if behind && !l.behind() && o.completed > 0 {
		out.changes = append(out.changes, Change{Origin: o.id})
	}
	return out
}

// complete ends all epochs below that of base: what was not announced again is absent.
func (o *origin) complete(base *layer) []Change {
	lower := slices.Index(o.layers, base)
	before := make(map[Key]*record)
	ended := slices.Collect(maps.Values(o.evicted))
	for _, l := range o.layers[:lower] {
		ended = slices.AppendSeq(ended, maps.Values(l.records))
	}
	for _, r := range ended {
		before[r.Key] = o.effective(r.Key)
	}
	o.completed, o.roomNeeded = base.epoch, 0
	o.forgetEvicted()
	o.layers = slices.Delete(o.layers, 0, lower)
	slices.SortFunc(ended, (*record).compareNumber) // so that what finds no room is the same everywhere
	for _, r := range ended {
		o.keepWithdrawal(r)
	}
	o.summary = nil
	for key := range base.records {
		o.forgetWithdrawal(key)
	}
	if o.clone != nil && o.clone.Epoch < base.epoch {
		o.clone = nil
	}
	var changes []Change
	for key, r := range before {
		if o.effective(key) != r {
			changes = append(changes, Change{key, o.id})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return a.Key.compare(b.Key) })
	return append(changes, Change{Origin: o.id})
}

func (o *origin) reportClone(epoch, sequence uint64) {
	if c := o.clone; c == nil || epoch > c.Epoch || epoch == c.Epoch && sequence > c.Sequence {
		o.clone = &Clone{Origin: o.id, Epoch: epoch, Sequence: sequence}
	}
}

// absent says whether it is proven that the origin does not have the object (any more).
func (s *State) absent(key Key, id string) bool {
	o := s.origins[id]
	if o == nil {
		return false
	}
	if r := o.effective(key); r != nil {
		return r.Status == Deleted && r.Epoch >= o.forgotten // or it was published again in an epoch that was let go
	}
	// It could be among what was let go or is known to be missing.
	return !o.withdrawalLost && o.completed > 0 && o.forgotten < o.completed && !slices.ContainsFunc(o.layers, (*layer).behind)
}
