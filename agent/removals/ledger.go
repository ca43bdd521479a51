// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/roster-mesh/roster/replica"
)

// Ledger has the removals that this cluster knows, in the order in which they are recorded, and the clusters that it
// left. The zero value is empty. Its methods are safe for concurrent use.
type Ledger struct {
	mu         sync.Mutex
	list       []*Removal
	byPair     map[pair]*Removal
	byKey      map[string]*Removal      // by public key: one of its removals
	byCluster  map[string]int           // by clusterID: the number of removals, without those of an unknown key
	departed   map[string]struct{}      // clusterIDs: members of a group that this cluster left
	Confirming atomic.Pointer[[]string] // who has to confirm those that are being published; nil while none are
}

func (l *Ledger) findLocked(id string, key ed25519.PublicKey) *Removal {
	return l.byPair[pair{id, string(key)}]
}

// Add adds a removal. One that is known is replaced, which keeps how far it was carried out.
func (l *Ledger) Add(now Removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.findLocked(now.ClusterID, now.PublicKey); held != nil {
		if !held.Ordered || now.Ordered { // it is told as it was ordered here: that of a stranger would be held
			held.Removal, held.UnverifiedAuthor = now.Removal, now.UnverifiedAuthor
		}
		if now.Ordered && !held.Ordered { // it was held when somebody else had ordered it
			held.Ordered, held.Waiting = true, now.Waiting
		}
		held.Basis = cmp.Or(now.Basis, held.Basis)
		if held.UnknownKey && !now.UnknownKey { // the key has become known
			held.UnknownKey, held.Ended = false, false
			l.byCluster[now.ClusterID]++
		}
		return
	}
	if l.byPair == nil {
		l.byPair, l.byKey, l.byCluster = map[pair]*Removal{}, map[string]*Removal{}, map[string]int{}
	}
	l.list = append(l.list, &now)
	l.byPair[pair{now.ClusterID, string(now.PublicKey)}] = &now
	if held := l.byKey[string(now.PublicKey)]; held == nil || held.Standing.Held {
		l.byKey[string(now.PublicKey)] = &now
	}
	if !now.UnknownKey {
		l.byCluster[now.ClusterID]++
	}
}

// Held adds a removal that is held, or replaces one, and says whether that is a change. What is in effect stays.
func (l *Ledger) Held(r replica.Removal) (changed bool) {
	l.mu.Lock()
	known := l.findLocked(r.ClusterID, r.PublicKey)
	settled := known != nil && (!known.Standing.Held || known.Standing == r.Standing && bytes.Equal(known.Message(), r.Message()))
	l.mu.Unlock()
	if !settled {
		l.Add(Removal{Removal: r, UnknownKey: true, Ended: true})
	}
	return !settled
}

// RemovedOrLeft reports whether the cluster was removed, or was in a group that this one left.
func (l *Ledger) RemovedOrLeft(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.departed[id]; ok {
		return true
	}
	return l.byCluster[id] > 0
}

// WaitingFor lists the removals that were ordered here and wait for a confirmation by that cluster. There may be thousands,
// which wait for the same ones.
func (l *Ledger) WaitingFor(id string) (all []Removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last []string
	waits := false
	for _, held := range l.list {
		if !same(held.Waiting, last) {
			last, waits = held.Waiting, slices.Contains(held.Waiting, id)
		}
		if waits {
			all = append(all, *held)
		}
	}
	return all
}

// Confirmed notes that removals do not wait for a cluster any more.
func (l *Ledger) Confirmed(id string, of []Removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last, left []string
	for _, r := range of {
		held := l.findLocked(r.ClusterID, r.PublicKey)
		held.HeldBy = slices.DeleteFunc(slices.Clone(held.HeldBy), func(by string) bool { return by == id })
		if !same(held.Waiting, last) {
			last = held.Waiting
			left = slices.DeleteFunc(slices.Clone(last), func(w string) bool { return w == id })
		}
		held.Waiting = left
	}
}

// same says that two lists are one.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// RemovedOrLeftIDs are the clusterIDs for which removedOrLeft is true.
func (l *Ledger) RemovedOrLeftIDs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := maps.Clone(l.departed)
	if ids == nil {
		ids = map[string]struct{}{}
	}
	for id := range l.byCluster {
		ids[id] = struct{}{}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Lookup returns the removal of a cluster's key, unless that is held.
func (l *Ledger) Lookup(id string, key ed25519.PublicKey) (Removal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.findLocked(id, key); held != nil && !held.Standing.Held {
		return *held, true
	}
	return Removal{}, false
}

// Name is what a cluster was called whose key was removed; its clusterID if nobody said.
func (l *Ledger) Name(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := id
	for _, held := range l.list { // those of unknown keys last: anybody may have made them up
		if held.ClusterID == id && held.Name != "" && (name == id || !held.UnknownKey) {
			name = held.Name
		}
	}
	return name
}

// LookupKey returns a removal of a key, of whatever cluster.
func (l *Ledger) LookupKey(key ed25519.PublicKey) (Removal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.byKey[string(key)]; held != nil {
		return *held, true
	}
	return Removal{}, false
}

// All returns a copy of every removal: 10,000 have twelve megabytes.
func (l *Ledger) All() []Removal {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Removal, 0, len(l.list))
	for _, held := range l.list {
		all = append(all, *held)
	}
	return all
}

// Which returns a copy of each removal that a condition holds for, which calls no method of l and changes nothing.
func (l *Ledger) Which(holds func(*Removal) bool) (some []Removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, held := range l.list {
		if holds(held) {
			some = append(some, *held)
		}
	}
	return some
}

// Change updates a removal, if it is known.
func (l *Ledger) Change(of replica.Removal, alter func(*Removal)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.findLocked(of.ClusterID, of.PublicKey); held != nil {
		alter(held)
	}
}

// AddDeparted adds clusters that this one leaves, and returns all of them.
func (l *Ledger) AddDeparted(ids []string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.departed == nil {
		l.departed = map[string]struct{}{}
	}
	for _, id := range ids {
		l.departed[id] = struct{}{}
	}
	return slices.Sorted(maps.Keys(l.departed))
}
