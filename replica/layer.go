// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import "github.com/roster-mesh/roster/replica/lthash"

// maxPending bounds the numbers remembered past a gap. Beyond it a little is pulled that is
// already held; nothing is lost.
const maxPending = 1 << 14

// layer is one epoch of one origin: a semilattice of its own, so that a half-announced
// epoch neither hides nor harms what is known of the one before.
//
// Invariants: proven ≤ frontier ≤ highest; pending holds numbers above frontier only;
// set, size and tombstones are those of records.
type layer struct {
	epoch       uint64
	records     map[Key]*record // the newest of each key in this epoch
	size        int             // bytes of all messages
	tombstones  int             // how many of them are tombstones
	set         lthash.Set
	frontier    uint64 // everything up to here is held or superseded
	highest     uint64 // the last number seen
	refused     uint64 // the last number that found no room
	pending     map[uint64]struct{}
	claim       [32]byte // of the entry numbered highest
	head        *headRecord
	claimMet    bool   // set was equal to a claim,
	proven      uint64 // last at this number
	mismatch    bool   // everything is here, and it is not what the origin claims
	doubt       doubt
	abandonedTo uint64 // when abandoned: up to here nothing is asked for any more

	// Of what deltas brought since numbers were last relied on: entries that were new, and entries that were held.
	news, repeats int
}

func newLayer(epoch uint64) *layer {
	return &layer{epoch: epoch, records: make(map[Key]*record)}
}

func (l *layer) put(r *record) {
	if held := l.records[r.Key]; held != nil {
		l.set.Remove(held.id)
		l.size -= len(held.msg)
		l.tombstones -= held.tombstones()
	}
	l.set.Add(r.id)
	l.size += len(r.msg)
	l.tombstones += r.tombstones()
	l.records[r.Key] = r
	l.news++
	if r.Sequence >= l.highest {
		l.highest, l.claim = r.Sequence, r.claim
	}
	l.receive(r.Sequence)
}

// letGo lets a record go, as if it had found no room: nothing is asked for again but what is new, until there is some.
func (l *layer) letGo(r *record) {
	l.set.Remove(r.id)
	l.size -= len(r.msg)
	l.tombstones -= r.tombstones()
	delete(l.records, r.Key)
	l.frontier = min(l.frontier, r.Sequence-1)
	l.proven, l.claimMet, l.pending = min(l.proven, l.frontier), false, nil
	l.abandon()
}

// receive notes that the entry numbered n is held or superseded.
func (l *layer) receive(n uint64) {
	if n <= l.frontier {
		return
	}
	for ok := l.doubt == abandoned && n == l.abandonedTo+1; ok; _, ok = l.pending[l.abandonedTo+1] {
		l.abandonedTo++
	}
	if n > l.frontier+1 {
		if l.pending == nil {
			l.pending = make(map[uint64]struct{})
		}
		if len(l.pending) < maxPending {
			l.pending[n] = struct{}{}
		}
		return
	}
	l.frontier = n
	for {
		if _, ok := l.pending[l.frontier+1]; !ok {
			return
		}
		l.frontier++
		delete(l.pending, l.frontier)
	}
}

// checkClaims compares what is held with what the origin claims and moves the frontier. It
// reports a mismatch when one appears.
func (l *layer) checkClaims() (mismatch bool) {
	if l.highest == 0 && l.head == nil {
		return false
	}
	sum := l.set.Sum()
	if l.head != nil && l.head.Sequence >= l.highest && l.head.Set == sum {
		l.prove(l.head.Sequence, sum)
		return false
	}
	if l.highest > 0 && l.claim == sum {
		l.prove(l.highest, sum)
		return false
	}
	if l.frontier < l.claimed() || l.mismatch {
		return false
	}
	l.mismatch = true
	return true
}

func (l *layer) prove(number uint64, claim [32]byte) {
	l.claimMet, l.proven, l.highest, l.claim = true, number, number, claim
	l.frontier = max(l.frontier, number)
	l.pending, l.mismatch = nil, false
	l.news, l.repeats = 0, 0
	if number >= l.claimed() {
		l.doubt, l.abandonedTo = trusted, 0
	}
}

// maxRepeats is how often what is held already may come again, for each entry that is new.
const maxRepeats = 4

// repeat notes that a delta brought what is held, and says whether that is so much that the numbers do not tell what is
// missing. It is for an origin that signs no head which would close its deltas.
func (l *layer) repeat() bool {
	l.repeats++
	return l.repeats > 64+maxRepeats*l.news
}

// complete says that the origin's announcement in this epoch is proven to be held.
func (l *layer) complete() bool {
	return l.claimMet && l.head != nil && l.head.Complete && l.proven >= l.head.Announced
}

// claimed is the highest number that the origin is known to have given out.
func (l *layer) claimed() uint64 {
	if l.head != nil {
		return max(l.highest, l.refused, l.head.Sequence)
	}
	return max(l.highest, l.refused)
}

// asked is the number above which something may still be had by asking for it: the frontier,
// but for an origin that skipped a number, or died with an entry that nobody got.
func (l *layer) asked() uint64 { return max(l.frontier, l.abandonedTo) }

// abandon gives up what is lacking now, after nobody's numbers and then not even
// everything that a peer holds brought it. What is lacking is not forgotten: nothing is proven
// meanwhile, and peers that hold something else in spite of equal numbers exchange it all.
func (l *layer) abandon() { l.abandonedTo, l.doubt = l.claimed(), abandoned }

// wants says that something which may still be had is known to be missing up to a number. What was abandoned is not asked
// for at once any more, whatever it says next: neighbours that hold more of it tell.
func (l *layer) wants(number uint64) bool { return l.asked() < number && l.doubt != abandoned }

// behind says that something of the origin is known to be missing here.
func (l *layer) behind() bool { return l.frontier < l.claimed() || l.mismatch }
