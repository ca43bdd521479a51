// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"slices"
)

// Entries returns what is in force of one kind, of all origins, ourselves included: live
// and withdrawn entries, ordered by name and origin.
func (r *Replica) Entries(kind Kind) []Entry {
	r.mu.Lock()
	var entries []Entry
	for _, o := range r.state.origins {
		for _, rec := range o.inForce() {
			if rec.Key.Kind == kind && rec.Status != Deleted {
				entries = append(entries, rec.Entry)
			}
		}
	}
	r.mu.Unlock()
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.Key.compare(b.Key), cmp.Compare(a.Origin, b.Origin))
	})
	return entries
}

// EntriesOf returns what is in force of one kind of one origin, live and withdrawn, ordered by name.
func (r *Replica) EntriesOf(origin string, kind Kind) []Entry {
	r.mu.Lock()
	var entries []Entry
	if o := r.originLocked(origin); o != nil {
		for _, rec := range o.inForce() {
			if rec.Key.Kind == kind && rec.Status != Deleted {
				entries = append(entries, rec.Entry)
			}
		}
	}
	r.mu.Unlock()
	slices.SortFunc(entries, func(a, b Entry) int { return a.Key.compare(b.Key) })
	return entries
}

// Origins returns the clusters that anything is held of, in order.
func (r *Replica) Origins() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.state.ids())
}

// Lookup returns what an origin says of a key; false when it is not held, or deleted.
func (r *Replica) Lookup(key Key, origin string) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.originLocked(origin); o != nil {
		if rec := o.effective(key); rec != nil && rec.Status != Deleted {
			return rec.Entry, true
		}
	}
	return Entry{}, false
}

// Find returns the entries in force for a key, the smaller clusterID first.
func (r *Replica) Find(key Key) []Entry {
	r.mu.Lock()
	var entries []Entry
	for _, o := range r.state.origins {
		if rec := o.effective(key); rec != nil && rec.Status != Deleted {
			entries = append(entries, rec.Entry)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Origin, b.Origin) })
	return entries
}

// Absent says whether it is proven that the origin does not have an object: its
// tombstone is held, or it is missing from a set that the origin has marked as complete
// and that is held without a known gap. False is no statement.
//
// The proof is as old as what is held. Who remembers an object from before a restart, when
// more may have been held than now, first compares its number with [Replica.Progress].
func (r *Replica) Absent(key Key, origin string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.absent(key, origin)
}
