// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"slices"

	"github.com/roster-mesh/roster/replica/limits"
)

// Limits bound what is kept of others.
type Limits = limits.Limits

// reserved is the part of what is shared that is for clusters which a person has admitted alone: one member can introduce
// as many as it likes, and each takes half of what the others leave.
const reserved = 4

// used is how many bytes the origin takes.
func (o *origin) used() int {
	n := o.keptBytes
	for _, l := range o.layers {
		n += l.size
	}
	return n
}

// free is how many more bytes the origin may take. Of what is shared none takes more than it
// leaves, so that there is something left however many there are.
func (o *origin) free() int {
	used := o.used()
	if o.id == o.state.self {
		return o.limits.Bytes - used
	}
	shared := o.limits.TotalBytes - limits.Origins*o.limits.Guaranteed()
	if !o.swapped {
		shared -= shared / reserved
	}
	left := shared - o.state.sharedUsed + o.limits.FromShared(o.counted) - o.limits.FromShared(used)
	fair := max(0, o.limits.Guaranteed()-used) + max(0, left-o.limits.FromShared(used))/2
	return min(fair, o.limits.Bytes-used, o.limits.TotalBytes-o.state.total+o.counted-used)
}

// count brings the totals up to date after a merge.
func (s *State) count(o *origin) {
	if used := o.used(); o.id != s.self {
		s.total += used - o.counted
		s.sharedUsed += s.limits.FromShared(used) - s.limits.FromShared(o.counted)
		o.counted = used
	}
}

// room refuses what exceeds the origin's share. Something can always be replaced by
// what is not larger.
func (o *origin) room(l *layer, r, held *record) error {
	entries, more := len(l.records)+1, len(r.msg)
	if held != nil {
		entries, more = entries-1, more-len(held.msg)
		if more <= 0 {
			return nil
		}
	}
	if o.id == o.state.self {
		// Others must have room for the next epoch beside this one.
		if entries <= o.limits.Entries && 2*(l.size+more) <= o.limits.Bytes {
			return nil
		}
		return fmt.Errorf("%w: %s may have %d entries and %d bytes", ErrFull, o.id, o.limits.Entries, o.limits.Bytes/2)
	}
	if entries <= o.limits.Entries {
		o.makeRoom(l.epoch, more)
		if more <= o.free() {
			return nil
		}
	}
	o.noteRefused(more)
	return fmt.Errorf("%w: %s may have %d entries and %d bytes, and a fair share of %d bytes with all others",
		ErrFull, o.id, o.limits.Entries, o.limits.Bytes, o.limits.TotalBytes)
}

// makeRoom lets epochs go that were opened before epoch and not completed.
func (o *origin) makeRoom(epoch uint64, size int) {
	if size > o.free() {
		o.withdrawalLost = o.withdrawalLost || holdsWithdrawn(o.evicted)
		o.forgetEvicted()
	}
	for size > o.free() {
		oldest := o.oldestOpen()
		if oldest >= len(o.layers) || o.layers[oldest].epoch >= epoch {
			return
		}
		o.withdrawalLost = o.withdrawalLost || holdsWithdrawn(o.layers[oldest].records)
		o.drop(oldest)
	}
}

// noteRefused remembers that something found no room: the least that would help.
func (o *origin) noteRefused(size int) {
	o.refused++
	if o.roomNeeded == 0 || size < o.roomNeeded {
		o.roomNeeded = size
	}
}

// full says that something of the origin was refused, and that there is no room for it still.
// Which entries found room depends on the order they came in; so nothing is asked
// for then but what is new, or members would exchange for ever what they cannot hold.
func (o *origin) full() bool {
	if o.roomNeeded > 0 && o.roomNeeded <= o.free() && len(o.withdrawn) < o.limits.Entries &&
		!slices.ContainsFunc(o.layers, func(l *layer) bool { return len(l.records) >= o.limits.Entries }) {
		o.roomNeeded = 0
	}
	return o.roomNeeded > 0
}

// checkRefused takes note of an entry of a delta that found no room: the entries come in
// order, so that nothing is to be had up to its number. The Cluster entry is out of order.
func (s *State) checkRefused(r *record) {
	if l := s.origin(r.Origin).layer(r.Epoch); l != nil && r.Key.Kind != KindCluster {
		l.abandonedTo, l.doubt = max(l.abandonedTo, r.Sequence), abandoned
	}
}
