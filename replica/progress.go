// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"slices"
)

// Progress says how much of an origin is held.
type Progress struct {
	Epoch        uint64 // newest epoch met
	Sequence     uint64 // frontier in it
	HeadSequence uint64 // highest number known to be given out in it
	Completed    uint64 // epoch whose announcement is proven; 0 is none
	Complete     bool   // Epoch is completed and nothing is known to be missing
	Entries      int    // in force, tombstones not counted
	Mismatches   uint64 // times that all numbers were here and the set was not the claimed one
	Refused      uint64 // times that something of it found no room ([Limits])
}

// Stats is what a replica holds.
type Stats struct {
	Origins, Entries, Tombstones, Withdrawn int
	Bytes                                   int
	Clones                                  int
	Full                                    int    // origins of which something found no room, and still would not
	Refused                                 uint64 // times that something found no room, see [Limits]
}

// Progress says how much of an origin is held; the zero value is nothing.
func (r *Replica) Progress(origin string) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.originLocked(origin)
	if o == nil {
		return Progress{}
	}
	p := Progress{Completed: o.completed, Mismatches: o.mismatches, Refused: o.refused}
	if n := len(o.layers); n > 0 {
		l := o.layers[n-1]
		p.Epoch, p.Sequence, p.HeadSequence = l.epoch, l.frontier, l.claimed()
		p.Complete = l.epoch == o.completed && !l.behind()
	}
	for _, rec := range o.inForce() {
		if rec.Status != Deleted {
			p.Entries++
		}
	}
	return p
}

// Stats counts what is held of all origins.
func (r *Replica) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s Stats
	for _, o := range r.state.origins {
		if records := o.inForce(); len(records) > 0 {
			s.Origins++
			for _, rec := range records {
				switch rec.Status {
				case Live:
					s.Entries++
				case Withdrawn:
					s.Withdrawn++
				case Deleted:
					s.Tombstones++
				}
			}
		}
		for _, rec := range o.all() {
			s.Bytes += len(rec.msg)
		}
		s.Refused += o.refused
		if o.full() {
			s.Full++
		}
		if r.originLocked(o.id).clone != nil {
			s.Clones++
		}
	}
	return s
}

// Clones lists the origins that more than one cluster writes as, ourselves included,
// until the origin completes a higher epoch.
func (r *Replica) Clones() []Clone {
	r.mu.Lock()
	defer r.mu.Unlock()
	var clones []Clone
	for _, id := range r.state.ids() {
		if c := r.originLocked(id).clone; c != nil {
			clones = append(clones, *c)
		}
	}
	return clones
}

// inForce lists the effective record of each key, unordered.
func (o *origin) inForce() []*record {
	if len(o.layers) == 1 && len(o.withdrawn) == 0 && len(o.evicted) == 0 {
		return o.all()
	}
	all := slices.AppendSeq(o.all(), maps.Values(o.evicted))
	return slices.DeleteFunc(all, func(r *record) bool { return o.effective(r.Key) != r })
}
