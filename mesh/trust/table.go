// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"
)

// Options are what a table is made with; all may be zero. The functions are called from the goroutine that made the
// change, with no lock held.
type Options struct {
	// Pinned is told every new or strengthened pin.
	Pinned func(Pin)
	// Waits is told of every newcomer that begins to wait.
	Waits func(Newcomer)
	// Authorities are the members that may admit a cluster that was removed. One without a key counts where a person pinned
	// that cluster. It must not be changed.
	Authorities []Name
}

// Table is the pin table: a [Graph] with a lock. Its own cluster is in it from the start and is not listed by
// Pins.
//
// All methods are safe for concurrent use.
type Table struct {
	self    string
	options Options

	mu       sync.RWMutex
	share    func(total int, wants map[string]int) map[string]int
	graph    *Graph
	ended    map[string]struct{} // clusterIDs whose pins ended, for TakeEnded
	watchers map[chan struct{}]struct{}
}

// New returns a table that holds self.
func New(self Pin, o Options) *Table {
	if o.Pinned == nil {
		o.Pinned = func(Pin) {}
	}
	if o.Waits == nil {
		o.Waits = func(Newcomer) {}
	}
	return &Table{
		self: self.ClusterID, options: o, graph: newGraph(self, o.Authorities),
		ended: map[string]struct{}{}, watchers: map[chan struct{}]struct{}{},
	}
}

// Pin records a swap. A pin that an introduction made with the same key
// becomes a swap's; the same swap again changes nothing.
func (t *Table) Pin(id string, key ed25519.PublicKey) error {
	return t.Restore(Pin{ClusterID: id, PublicKey: key})
}

// Introduce records a key that introducer vouches for. It never replaces or
// weakens a pin.
func (t *Table) Introduce(id string, key ed25519.PublicKey, introducer string) error {
	return t.add(Pin{ClusterID: id, PublicKey: key, Introducer: introducer}, false)
}

// Restore pins a key as an earlier run had it.
func (t *Table) Restore(p Pin) error { return t.add(p, true) }

func (t *Table) add(p Pin, restored bool) error {
	if !ValidID(p.ClusterID) || len(p.PublicKey) != ed25519.PublicKeySize {
		return ErrInvalidPin
	}
	p.PublicKey = slices.Clone(p.PublicKey)
	var err error
	t.change(func(g *Graph) (did change) {
		did, err = g.add(p, restored)
		return did
	})
	return err
}

// Remove ends the pin of a key for a cluster for ever: it is pinned no more, whoever vouches for it. left says that the
// cluster did so itself, under that key, and successor is the key that it goes on under, if it named one. ended says that
// a pin of the cluster ended by it: that of the key, or that of another one, which it shows not to be admitted. The
// cluster's connections end within moments. What the key is to another cluster stays as it is, or whoever names a member's
// key beside a cluster that there is not would remove the member in part. Its own pin stays, too.
func (t *Table) Remove(id string, key, successor ed25519.PublicKey, left bool) (ended bool) {
	s := Statement{ClusterID: id, PublicKey: slices.Clone(key), Left: left}
	if left {
		s.Successor = slices.Clone(successor)
	}
	return len(t.change(func(g *Graph) change { return g.end(s) }).ended) > 0
}

// Forget ends a cluster's pin, which may be made again. That there was one is still known: a leave of that key counts.
func (t *Table) Forget(id string) {
	t.change(func(g *Graph) change { return g.unpin(id) })
}

// Approve sets the newcomers that a person here admits, each by its key.
func (t *Table) Approve(names []Name) {
	t.change(func(g *Graph) change { return g.approve(names) })
}

// Recall notes that a key was pinned in an earlier run, whatever has become of it, and whether a person or an authority
// here had admitted it: its leave may name a successor. Call it before Remove.
func (t *Table) Recall(id string, key ed25519.PublicKey, admitted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.graph.recall(id, key, admitted)
}

// Had says so.
func (t *Table) Had(id string, key ed25519.PublicKey) (admitted, had bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	admitted, had = t.graph.had[id][string(key)]
	return admitted, had
}

// LeftUnder lists the keys that were pinned for a cluster here and have left. A removal of the cluster names them, too: who has
// stolen one could name another successor.
func (t *Table) LeftUnder(id string) []ed25519.PublicKey {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.leftUnder(id)
}

// Admit takes an admission that its author, a member, has signed: the replica holds it. What waits for it is reviewed.
func (t *Table) Admit(a Admission) {
	a.PublicKey = slices.Clone(a.PublicKey)
	t.change(func(g *Graph) change { return g.admit(a) })
}

// Withdraw takes back an admission: its author has, or is not a member any more. Pins stay.
func (t *Table) Withdraw(author, clusterID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.graph.withdraw(author, clusterID)
}

// Version is another one after each change of what is pinned, and on whose word: not after what changes neither.
func (t *Table) Version() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.version
}

// Signs notes whether a member's agent is of a version that signs admissions, as the member says itself.
func (t *Table) Signs(id string, signs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.graph.admissions.signs, id); signs {
		t.graph.admissions.signs[id] = struct{}{}
	}
}

// AdmittedBy lists the clusters that a member has admitted, ordered.
func (t *Table) AdmittedBy(author string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.graph.admissions.by[author]))
}

// Vouch has this cluster answer for members that others would not pin, since no admission leads to them. Pinned is told of each.
func (t *Table) Vouch(ids []string) { t.change(func(g *Graph) change { return g.vouch(ids, false) }) }

// Keep does so because a person here keeps them when their introducer is removed: it relies on nobody else's word.
func (t *Table) Keep(ids []string) { t.change(func(g *Graph) change { return g.vouch(ids, true) }) }

// Own lists what this cluster admits, ordered by clusterID: it is to sign all that, and no more.
func (t *Table) Own() []Admission {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.own()
}

// OwnOf is what Own has of one cluster.
func (t *Table) OwnOf(id string) (Admission, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	pin, ok := t.graph.pins[id]
	if !ok {
		return Admission{}, false
	}
	return t.graph.ownOf(id, pin)
}

// Words lists on whose word a member is pinned.
func (t *Table) Words(id string) []Word {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.words(id)
}

// Arrange is told who is below whom in the tree of admissions, by which the room for pins is shared. It must not be changed.
func (t *Table) Arrange(parents map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.graph.arranged, t.graph.branches = parents, nil
}

// change changes the graph, and tells of it.
func (t *Table) change(do func(*Graph) change) change {
	t.mu.Lock()
	did := do(t.graph)
	for _, id := range did.ended {
		t.ended[id] = struct{}{}
	}
	if len(did.pinned)+len(did.ended) > 0 {
		for w := range t.watchers {
			signal(w)
		}
	}
	t.mu.Unlock()
	for _, p := range did.pinned {
		t.options.Pinned(p)
	}
	for _, n := range did.waits {
		t.options.Waits(n)
	}
	return did
}

// Swapped says that a person, and no introduction, has pinned a cluster's key.
func (t *Table) Swapped(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.graph.pins[id]
	return ok && p.Introducer == ""
}

// Introducer is the member on whose word a cluster was pinned; "" where a person here did it.
func (t *Table) Introducer(id string) (introducer string, pinned bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.graph.pins[id]
	return p.Introducer, ok
}

// Sponsor is the member on whose word a cluster is pinned under a key, "" where a person here did it; or where it is not, on whose it
// would be if the member from brought it, "" for nobody's.
func (t *Table) Sponsor(id string, key ed25519.PublicKey, from string) (by string, pinned bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if p, ok := t.graph.pins[id]; ok && p.PublicKey.Equal(key) {
		return p.Introducer, true
	}
	by, _ = t.graph.voucher(Pin{ClusterID: id, PublicKey: key, Introducer: from})
	return by, false
}

// Removed says that a key was removed of some cluster.
func (t *Table) Removed(key ed25519.PublicKey) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.graph.removed[string(key)]) > 0
}

// Reserved says that a cluster was removed, or left, or may have, and so not everybody may admit it.
func (t *Table) Reserved(id string) bool {
	t.mu.Lock() // the graph remembers the answer
	defer t.mu.Unlock()
	return t.graph.reserved(id) || t.graph.guards(id)
}

// Newcomers lists who waits to be admitted, ordered by clusterID and key.
func (t *Table) Newcomers() []Newcomer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.newcomers()
}

// Rivals lists the admissions by members that name another key than the one that is pinned, which stays, ordered by clusterID and
// author. Those of a key that has ended are none.
func (t *Table) Rivals() (all []Admission) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, by := range t.graph.admissions.of {
		pin, pinned := t.graph.pins[id]
		for _, a := range by {
			_, ended := t.graph.statements[id][string(a.PublicKey)]
			if pinned && !ended && !pin.PublicKey.Equal(a.PublicKey) && t.graph.admits(a) {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, func(a, b Admission) int {
		return cmp.Or(cmp.Compare(a.ClusterID, b.ClusterID), cmp.Compare(a.Author, b.Author))
	})
	return all
}

// IsAuthority says whether a member may admit a cluster that was removed.
func (t *Table) IsAuthority(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.isAuthority(id)
}

// Strangers lists the authorities that do not count: no member has that clusterID and key, or only an introduction says which
// key it has.
func (t *Table) Strangers() (names []Name) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, n := range t.options.Authorities {
		if !t.graph.counts(n) {
			names = append(names, n)
		}
	}
	return names
}

// TakeEnded returns, once, the clusters whose pins ended, even if they were
// pinned again.
func (t *Table) TakeEnded() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := slices.Collect(maps.Keys(t.ended))
	clear(t.ended)
	return ids
}

// Key is the key that is pinned for a clusterID. It must not be changed.
func (t *Table) Key(id string) (ed25519.PublicKey, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p, ok := t.graph.pins[id]
	return p.PublicKey, ok
}

// ClusterID is the cluster that a key is pinned for.
func (t *Table) ClusterID(key ed25519.PublicKey) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.graph.owners[string(key)]
	return id, ok
}

// Pins lists every pin but the cluster's own, ordered by clusterID.
func (t *Table) Pins() []Pin {
	t.mu.RLock()
	pins := make([]Pin, 0, len(t.graph.pins))
	for _, p := range t.graph.pins {
		if p.ClusterID != t.self {
			pins = append(pins, p)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(pins, func(a, b Pin) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return pins
}

// IsPeer says whether id is pinned and not the cluster itself.
func (t *Table) IsPeer(id string) bool {
	_, ok := t.Key(id)
	return ok && id != t.self
}

// IsPinned says whether a key is pinned for a cluster, and that is not the cluster itself.
func (t *Table) IsPinned(id string, key ed25519.PublicKey) bool {
	pinned, ok := t.Key(id)
	return ok && id != t.self && pinned.Equal(key)
}

// Watch returns a channel that gets a value after pins changed, until stop.
func (t *Table) Watch() (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers[c] = struct{}{}
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watchers, c)
	}
}

// signal leaves a value in a channel of capacity one unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
