// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/roster-mesh/roster/replica/limits"
	"github.com/roster-mesh/roster/replica/shares"
)

// Limits bound what is kept of others.
type Limits = limits.Limits

// used is how many bytes the origin takes.
func (o *origin) used() int {
	n := o.keptBytes
	for _, l := range o.layers {
		n += l.size
	}
	return n
}

// fits says whether the origin may take more bytes.
func (o *origin) fits(more int) bool {
	return o.used()+more <= o.limits.Bytes && o.state.pool.Fits(o.id, o.used()+more)
}

// makeWay has others give way, so that the origin may take more bytes. It says whether it may.
func (o *origin) makeWay(more int) bool {
	return o.fits(more) && o.state.pool.Make(o.id, o.used()+more, func(id string, most int) { o.state.origins[id].giveWay(most) })
}

// giveWay lets go of what the origin has beyond so many bytes, as if it had found no room.
func (o *origin) giveWay(most int) {
	o.withdrawalLost = o.withdrawalLost || holdsWithdrawn(o.evicted)
	o.forgetEvicted()
	for r := range shares.First(o.all(), goesFirst) {
		if o.used() <= most {
			break
		}
		o.noteRefused(len(r.msg))
		if l := o.layer(r.Epoch); l == nil || l.records[r.Key] != r {
			o.withdrawalLost = true
			o.forgetWithdrawal(r.Key)
		} else if l.letGo(r); l.epoch > o.completed {
			o.forgotten = max(o.forgotten, l.epoch)
		}
	}
	o.summary = nil
	o.state.displaced = append(o.state.displaced, Change{Origin: o.id})
	o.state.count(o)
}

// goesFirst orders records: last go those of the cluster itself, and before them those of whom it admits and of what is withdrawn; of
// the others the newest goes first.
func goesFirst(a, b *record) int {
	rank := func(r *record) uint64 {
		return flag(r.Status == Withdrawn) + 2*flag(r.Key.Kind == KindAdmission) + 4*flag(r.Key.Kind == KindCluster)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.compareNumber(a), bytes.Compare(a.hash[:], b.hash[:]))
}

// count notes how much the origin takes, after a change.
func (s *State) count(o *origin) { s.pool.Set(o.id, o.used()) }

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
	if entries <= o.limits.Entries && o.makeRoom(l.epoch, more) {
		return nil
	}
	o.noteRefused(more)
	return fmt.Errorf("%w: %s may have %d entries and %d bytes, and a fair share of %d bytes with all others",
		ErrFull, o.id, o.limits.Entries, o.limits.Bytes, o.limits.TotalBytes)
}

// makeRoom lets epochs go that were opened before epoch and not completed, and then has others give way. It says whether there is room.
func (o *origin) makeRoom(epoch uint64, size int) bool {
	for !o.fits(size) {
		if lost, oldest := o.evicted, o.oldestOpen(); lost != nil {
			o.withdrawalLost = o.withdrawalLost || holdsWithdrawn(lost)
			o.forgetEvicted()
		} else if oldest >= len(o.layers) || o.layers[oldest].epoch >= epoch {
			return false
		} else {
			o.withdrawalLost = o.withdrawalLost || holdsWithdrawn(o.layers[oldest].records)
			o.drop(oldest)
		}
		o.state.displaced = append(o.state.displaced, Change{Origin: o.id})
	}
	return o.makeWay(size)
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
	if o.roomNeeded > 0 && o.fits(o.roomNeeded) && len(o.withdrawn) < o.limits.Entries &&
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
