// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

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
