// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"

	"github.com/roster-mesh/roster/replica"
)

// removal is one that is held, and how far it has been carried out here.
type removal struct {
	replica.Removal
	unknownKey       bool     // it is about a key that was not pinned here, nor in any object
	ended            bool     // what that cluster had here has ended; what turns up later was put there by somebody
	unverifiedAuthor bool     // its author's key was not pinned here: another member vouched that it is who it says
	ordered          bool     // by a person in this cluster
	waiting          []string // of an ordered one: clusterIDs of the members that have not confirmed it
	unasked          bool     // it was recorded without them, and every member is to be asked; until Run
}

// ledger is the removals that are held here, in the order in which they are recorded, and who was left. The zero value
// holds none.
type ledger struct {
	mu       sync.Mutex
	list     []*removal
	pairs    map[pair]*removal
	keys     map[string]*removal // one of each public key
	known    map[string]int      // how many are about a cluster, unknownKey ones not counted
	departed map[string]struct{} // who was a member of a group that this cluster left
}

// pair is what a removal is about.
type pair struct{ clusterID, key string }

func (l *ledger) find(id string, key ed25519.PublicKey) *removal {
	return l.pairs[pair{id, string(key)}]
}

// take adds a removal, or another statement of the same.
func (l *ledger) take(now removal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.find(now.ClusterID, now.PublicKey); held != nil {
		held.Removal, held.unverifiedAuthor = now.Removal, now.unverifiedAuthor
		if held.unknownKey && !now.unknownKey { // it is about something after all
			held.unknownKey, held.ended = false, false
			l.known[now.ClusterID]++
		}
		return
	}
	if l.pairs == nil {
		l.pairs, l.keys, l.known = map[pair]*removal{}, map[string]*removal{}, map[string]int{}
	}
	l.list = append(l.list, &now)
	l.pairs[pair{now.ClusterID, string(now.PublicKey)}], l.keys[string(now.PublicKey)] = &now, &now
	if !now.unknownKey {
		l.known[now.ClusterID]++
	}
}

// mentions says that the cluster was removed, or was in a group that this one left.
func (l *ledger) mentions(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.departed[id]; ok {
		return true
	}
	return l.known[id] > 0
}

// awaits says that a removal which was ordered here is to be confirmed by a cluster.
func (l *ledger) awaits(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(held *removal) bool { return slices.Contains(held.waiting, id) })
}

// mentioned lists the clusters that mentions is true of.
func (l *ledger) mentioned() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := maps.Clone(l.departed)
	if ids == nil {
		ids = map[string]struct{}{}
	}
	for id := range l.known {
		ids[id] = struct{}{}
	}
	return slices.Sorted(maps.Keys(ids))
}

// of returns the removal of a cluster's key.
func (l *ledger) of(id string, key ed25519.PublicKey) (removal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.find(id, key); held != nil {
		return *held, true
	}
	return removal{}, false
}

// ofKey returns a removal of a key, whatever the cluster.
func (l *ledger) ofKey(key ed25519.PublicKey) (removal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.keys[string(key)]; held != nil {
		return *held, true
	}
	return removal{}, false
}

func (l *ledger) all() []removal {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]removal, 0, len(l.list))
	for _, held := range l.list {
		copied := *held
		copied.waiting = slices.Clone(held.waiting)
		out = append(out, copied)
	}
	return out
}

// change alters one that is held.
func (l *ledger) change(of replica.Removal, alter func(*removal)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.find(of.ClusterID, of.PublicKey); held != nil {
		alter(held)
	}
}

// depart adds clusters that this one leaves.
func (l *ledger) depart(ids []string) (all []string) {
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
