// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/roster-mesh/roster/replica"
)

// removal is a removal that was merged, and how far it has been carried out in this cluster.
type removal struct {
	replica.Removal
	unknownKey       bool     // the key was neither pinned here nor in a Cluster object
	ended            bool     // that cluster's access to this one has ended; a Cluster object that appears later was created by somebody
	unverifiedAuthor bool     // the author's key was not pinned here: another member vouched for it
	ordered          bool     // requested in this cluster
	waiting          []string // if ordered: clusterIDs of the members that have not confirmed it; shared, and so never changed in place
	basis            string   // on what the key was pinned here: one of basis…, "" if it never was
	askAll           bool     // recorded without the list of waiting: Run asks every member
}

// ledger has the removals that this cluster knows, in the order in which they are recorded, and the clusters that it
// left. The zero value is empty. Its methods are safe for concurrent use.
type ledger struct {
	mu         sync.Mutex
	list       []*removal
	byPair     map[pair]*removal
	byKey      map[string]*removal      // by public key: one of its removals
	byCluster  map[string]int           // by clusterID: the number of removals, without those of an unknown key
	departed   map[string]struct{}      // clusterIDs: members of a group that this cluster left
	confirming atomic.Pointer[[]string] // who has to confirm those that are being published; nil while none are
}

// pair identifies what a removal is about.
type pair struct{ clusterID, key string }

func (l *ledger) findLocked(id string, key ed25519.PublicKey) *removal {
	return l.byPair[pair{id, string(key)}]
}

// add adds a removal. One that is known is replaced, which keeps how far it was carried out.
func (l *ledger) add(now removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.findLocked(now.ClusterID, now.PublicKey); held != nil {
		held.Removal, held.unverifiedAuthor = now.Removal, now.unverifiedAuthor
		held.basis = cmp.Or(now.basis, held.basis)
		if held.unknownKey && !now.unknownKey { // the key has become known
			held.unknownKey, held.ended = false, false
			l.byCluster[now.ClusterID]++
		}
		return
	}
	if l.byPair == nil {
		l.byPair, l.byKey, l.byCluster = map[pair]*removal{}, map[string]*removal{}, map[string]int{}
	}
	l.list = append(l.list, &now)
	l.byPair[pair{now.ClusterID, string(now.PublicKey)}], l.byKey[string(now.PublicKey)] = &now, &now
	if !now.unknownKey {
		l.byCluster[now.ClusterID]++
	}
}

// removedOrLeft reports whether the cluster was removed, or was in a group that this one left.
func (l *ledger) removedOrLeft(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.departed[id]; ok {
		return true
	}
	return l.byCluster[id] > 0
}

// waitingFor lists the removals that were ordered here and wait for a confirmation by that cluster. There may be thousands,
// which wait for the same ones.
func (l *ledger) waitingFor(id string) (all []removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last []string
	waits := false
	for _, held := range l.list {
		if !same(held.waiting, last) {
			last, waits = held.waiting, slices.Contains(held.waiting, id)
		}
		if waits {
			all = append(all, *held)
		}
	}
	return all
}

// confirmed notes that removals do not wait for a cluster any more.
func (l *ledger) confirmed(id string, of []removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last, left []string
	for _, r := range of {
		held := l.findLocked(r.ClusterID, r.PublicKey)
		if !same(held.waiting, last) {
			last = held.waiting
			left = slices.DeleteFunc(slices.Clone(last), func(w string) bool { return w == id })
		}
		held.waiting = left
	}
}

// same says that two lists are one.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// removedOrLeftIDs are the clusterIDs for which removedOrLeft is true.
func (l *ledger) removedOrLeftIDs() []string {
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

// lookup returns the removal of a cluster's key.
func (l *ledger) lookup(id string, key ed25519.PublicKey) (removal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.findLocked(id, key); held != nil {
		return *held, true
	}
	return removal{}, false
}

// name is what a cluster was called whose key was removed; its clusterID if nobody said.
func (l *ledger) name(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := id
	for _, held := range l.list { // those of unknown keys last: anybody may have made them up
		if held.ClusterID == id && held.Name != "" && (name == id || !held.unknownKey) {
			name = held.Name
		}
	}
	return name
}

// lookupKey returns a removal of a key, of whatever cluster.
func (l *ledger) lookupKey(key ed25519.PublicKey) (removal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.byKey[string(key)]; held != nil {
		return *held, true
	}
	return removal{}, false
}

// all returns a copy of every removal.
func (l *ledger) all() []removal {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]removal, 0, len(l.list))
	for _, held := range l.list {
		out = append(out, *held)
	}
	return out
}

// change updates a removal, if it is known.
func (l *ledger) change(of replica.Removal, alter func(*removal)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.findLocked(of.ClusterID, of.PublicKey); held != nil {
		alter(held)
	}
}

// addDeparted adds clusters that this one leaves, and returns all of them.
func (l *ledger) addDeparted(ids []string) (all []string) {
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
