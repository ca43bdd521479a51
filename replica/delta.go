// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/roster-mesh/roster/replica/admission"
)

// lacks says whether the sender of a digest holds something that we do not. It may
// err on the side of yes.
func (s *State) lacks(d *digest) bool {
	return s.removals.digest().Lacks(&d.removals) || slices.ContainsFunc(d.origins, func(od originDigest) bool {
		o := s.origins[od.origin]
		switch {
		case o == nil:
			return slices.ContainsFunc(od.layers, func(dl layerDigest) bool { return dl.highest > 0 || dl.head != [8]byte{} })
		case od.origin == s.self:
			return o.lacksOwn(&od)
		case o.held() == od.held:
			return o.otherHeads(&od)
		case o.full(), od.full && !o.searching():
			return o.behindOf(&od)
		default:
			// A difference that neither side's numbers explain (a clone, an old
			// withdrawal) is settled by exchanging everything.
			return o.behindOf(&od) || o.doubts(&od) || !o.aheadOf(&od)
		}
	})
}

// searching says that something may be had of a peer that its numbers do not show.
func (o *origin) searching() bool {
	return slices.ContainsFunc(o.layers, func(l *layer) bool {
		return l.head != nil && l.behind() && l.doubt != abandoned
	})
}

// lacksOwn is lacks for what a peer holds of ourselves. What is below our epoch is over,
// but for withdrawn entries that we forgot; what is above our position is a sign that our
// epoch was used before.
func (o *origin) lacksOwn(od *originDigest) bool {
	ours := o.layers[len(o.layers)-1]
	for _, dl := range od.layers {
		if dl.epoch > ours.epoch || dl.epoch == ours.epoch && dl.highest > ours.highest {
			return true
		}
	}
	if o.completed < ours.epoch {
		return false
	}
	if o.held() == od.held || od.full {
		return o.otherHeads(od)
	}
	return o.doubts(od) || !o.aheadOf(od)
}

// doubts says that one of the two sides does not trust its numbers: it exchanged what they
// explain, and still lacked something.
func (o *origin) doubts(od *originDigest) bool {
	return slices.ContainsFunc(od.layers, func(dl layerDigest) bool {
		l := o.layer(dl.epoch)
		return l != nil && (l.doubt == doubted || dl.doubt == doubted)
	})
}

// behindOf says that the numbers of a peer show something that we lack.
func (o *origin) behindOf(od *originDigest) bool {
	if l := o.layer(od.completed); od.completed > o.completed && (l == nil || l.doubt != abandoned) {
		return true
	}
	for _, dl := range od.layers {
		if o.refuses(dl.epoch) {
			continue
		}
		if l := o.layer(dl.epoch); l == nil && dl.highest > 0 || l != nil && dl.highest > l.asked() {
			return true
		}
	}
	return o.otherHeads(od)
}

// aheadOf says that our numbers show something that a peer lacks.
func (o *origin) aheadOf(od *originDigest) bool {
	if dl := od.layer(o.completed); o.completed > od.completed && (dl == nil || dl.doubt != abandoned) {
		return true
	}
	for _, l := range o.layers {
		if l.epoch < od.completed || l.claimed() == 0 {
			continue
		}
		if dl := od.layer(l.epoch); dl == nil || l.highest > dl.frontier {
			return true
		}
	}
	return false
}

// otherHeads says that a peer has a head that is not ours; which one is newer only the
// exchange shows.
func (o *origin) otherHeads(od *originDigest) bool {
	return slices.ContainsFunc(od.layers, func(dl layerDigest) bool {
		if dl.head == [8]byte{} || o.refuses(dl.epoch) {
			return false
		}
		l := o.layer(dl.epoch)
		return l == nil || l.head == nil || [8]byte(l.head.hash[:8]) != dl.head
	})
}

// delta lists the messages that the sender of a digest lacks: the removals, since they decide whose entries count; then
// per origin, after who admits it, its Cluster entry, which introduces it, the others by number, and its heads.
func (s *State) delta(d *digest) [][]byte {
	removals, msgs := s.removals.delta(&d.removals), [][]byte(nil)
	if len(removals) <= removalsFirst {
		removals, msgs = nil, removals
	}
	ids, lacking := s.lacking(d)
	for _, id := range ids {
		o, od, records := s.origins[id], d.about(id), lacking[id]
		for _, r := range records {
			msgs = append(msgs, r.msg)
		}
		for _, l := range o.layers {
			if l.head == nil || l.epoch < od.completed {
				continue
			}
			// A head that is known closes the list nevertheless: with it the receiver
			// checks what it got, be it nothing.
			dl := od.layer(l.epoch)
			if dl == nil || dl.head != [8]byte(l.head.hash[:8]) || len(records) > 0 ||
				dl.doubt != abandoned && dl.frontier < l.head.Sequence && o.held() != od.held {
				msgs = append(msgs, l.head.msg)
			}
		}
	}
	return append(msgs, removals...)
}

// lacking lists the records that the sender of a digest lacks; who admits an origin comes before it, first us and whom he knows.
func (s *State) lacking(d *digest) (ids []string, missing map[string][]*record) {
	missing = make(map[string][]*record, len(s.origins))
	rank := func(id string) uint64 { return flag(id != s.self) + flag(id != s.self && d.of(id) == nil) }
	for _, id := range s.ids() {
		missing[id] = s.origins[id].missing(d.about(id))
		slices.SortFunc(missing[id], inDelta)
		ids = append(ids, id)
	}
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return admission.After(ids, func(id string) (admitted []string) {
		for _, r := range missing[id] {
			if r.Key.Kind == KindAdmission {
				admitted = append(admitted, r.Key.Name)
			}
		}
		return admitted
	}), missing
}

// inDelta orders records; the hash decides between those of a clone.
func inDelta(a, b *record) int {
	return cmp.Or(cmp.Compare(flag(b.Key.Kind == KindCluster), flag(a.Key.Kind == KindCluster)),
		a.compareNumber(b), bytes.Compare(a.hash[:], b.hash[:]))
}

// missing lists the records that a peer lacks.
func (o *origin) missing(od *originDigest) []*record {
	if o.held() == od.held {
		return nil
	}
	all := o.all()
	if o.doubts(od) && !od.full {
		return all
	}
	var missing []*record
	explained := o.behindOf(od)
	for _, r := range all {
		if r.Epoch < od.completed {
			if r.Status == Withdrawn && !od.full {
				missing = append(missing, r)
			}
			continue
		}
		if dl := od.layer(r.Epoch); dl == nil || r.Sequence > dl.frontier {
			missing = append(missing, r)
			explained = true
		}
	}
	if !explained && !od.full {
		return all
	}
	return missing
}

// checkDelta takes note of a head that closed a delta. If its epoch is not whole even now,
// the numbers do not tell what is missing, and the next delta is to bring everything. If that
// does not help, it is back to numbers, from here on.
func (s *State) checkDelta(h *headRecord) {
	o := s.origin(h.Origin)
	if l := o.layer(h.Epoch); l != nil && l.behind() {
		o.raiseDoubt(l)
	}
}

// repeated does the same for an entry of a delta that is held. Where no head closes the deltas, and each brings again
// what is past a gap, their number tells.
func (s *State) repeated(r *record) (changed bool) {
	o := s.origins[r.Origin]
	if o == nil {
		return false
	}
	l := o.layer(r.Epoch)
	if l == nil || !l.behind() || !l.repeat() {
		return false
	}
	o.raiseDoubt(l)
	return true
}

func (o *origin) raiseDoubt(l *layer) {
	l.news, l.repeats = 0, 0
	if l.doubt == trusted && !o.full() {
		l.doubt = doubted
	} else {
		l.abandon()
	}
}
