// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"

	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// Options are what a guard asks. The functions may be called with locks of the replica held, and must not call it.
type Options struct {
	ClusterID string
	Key       ed25519.PublicKey
	Trust     *trust.Table
	// Members lists who admitted whom, each after who admitted it.
	Members func() []removalguard.Member
	// Met says whether the agent of a member was ever in contact with this one.
	Met func(clusterID string) bool
	// Refuses says whether a member has shown that it took this cluster for removed.
	Refuses func(clusterID string) bool
}

// pair is what a removal is about.
type pair struct{ clusterID, key string }

func about(r replica.Removal) pair { return pair{r.ClusterID, string(r.PublicKey)} }

// statement is a pair and who says that it is removed.
type statement struct{ about, by pair }

// Guard knows what has become of each removal. It is safe for concurrent use.
type Guard struct {
	o Options

	mu      sync.Mutex
	of      map[pair]*replica.Removal // but leaves
	byID    map[string][]pair         // by the clusterID that is removed
	charged map[pair]*removalguard.Charge
	with    map[string]map[string]*removalguard.Charge // clusterID → author that has removed the head of its branch → of that
	meets   map[string]int                             // clusterIDs that are about to be pinned
	tried   map[statement]struct{}                     // that are held, beside those of of
	again   map[pair]struct{}                          // to be asked about again
	strange map[pair]struct{}                          // held because their authors were not pinned
	tree    *removalguard.Tree
	ofTree  uint64 // the version of the table that the tree is of
}

// NewGuard returns a guard that knows of no removal.
func NewGuard(o Options) *Guard {
	return &Guard{
		o: o, of: map[pair]*replica.Removal{}, byID: map[string][]pair{}, charged: map[pair]*removalguard.Charge{},
		with: map[string]map[string]*removalguard.Charge{}, tried: map[statement]struct{}{}, meets: map[string]int{}, again: map[pair]struct{}{}, strange: map[pair]struct{}{},
	}
}

// Recall takes a removal that an earlier run recorded, with what had become of it.
func (g *Guard) Recall(r replica.Removal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Left() {
		return
	}
	g.putLocked(r, r.Standing)
	if r.Standing.Charge != nil {
		g.goAlongLocked(r.Standing.Charge)
	}
	if r.Standing.Held { // its author may be an authority now
		g.again[about(r)] = struct{}{}
	}
	delete(g.strange, about(r)) // see Recalled
}

// Recalled is called when all was recalled, and the pins are those of the earlier run: which authors are not pinned.
func (g *Guard) Recalled() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, r := range g.of {
		if r.Standing.Held && !g.o.Trust.IsPinned(r.By, r.ByKey) {
			g.strange[p] = struct{}{}
		}
	}
}

func (g *Guard) putLocked(r replica.Removal, s removalguard.Standing) {
	p := about(r)
	if g.of[p] == nil {
		g.byID[r.ClusterID] = append(g.byID[r.ClusterID], p)
	}
	r.Standing = s
	g.of[p] = &r
	if delete(g.strange, p); s.Held && !g.o.Trust.IsPinned(r.By, r.ByKey) {
		g.strange[p] = struct{}{}
	}
	if delete(g.charged, p); s.Charge != nil {
		g.charged[p] = s.Charge
	}
}

// Hold says what becomes of a removal: see replica.Options.
func (g *Guard) Hold(r replica.Removal) (s removalguard.Standing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.of[about(r)]
	switch {
	case known == nil && r.Left():
		return s // its own word
	case r.Left(): // whoever held that it was removed has nothing to hold any more
		r = *known
	case known != nil && !known.Standing.Held:
		return known.Standing
	case r.By == g.o.ClusterID && r.ByKey.Equal(g.o.Key):
	case g.o.Trust.IsPinned(r.By, r.ByKey) && g.o.Trust.IsAuthority(r.By):
	case known != nil && g.decidedLocked(known, r):
		return known.Standing
	default:
		if s = g.decideLocked(r); s.Held && known != nil && (g.mayRemove(*known) || !g.mayRemove(r)) {
			r = *known // whose author is shown: a full member, or else anybody hides what that says by a statement of his own
		}
	}
	g.putLocked(r, s)
	return s
}

// maxTried bounds the statements that are remembered, beside the one that is held, of keys whose removal is held. When there are so
// many, they are forgotten, and decided on once more: a thief with many inventions must not have what others order held unheard.
const maxTried = 1 << 14

// decidedLocked says whether a statement about a key whose removal is held was decided on: it comes again and again, and what it counts for
// may have been confirmed meanwhile. It is asked about again if this cluster, or one that is about to be pinned, is removed, or the
// head of its branch was, or its author has come to be pinned.
func (g *Guard) decidedLocked(known *replica.Removal, r replica.Removal) bool {
	if r.ClusterID == g.o.ClusterID || g.meets[r.ClusterID] > 0 {
		return false
	}
	if known.By == r.By && known.ByKey.Equal(r.ByKey) {
		_, strange := g.strange[about(r)]
		return g.with[r.ClusterID][r.By] == nil && (!strange || !g.o.Trust.IsPinned(r.By, r.ByKey))
	}
	statement := statement{about(r), pair{r.By, string(r.ByKey)}}
	if _, tried := g.tried[statement]; tried {
		return true
	}
	if g.o.Trust.IsPinned(r.By, r.ByKey) {
		if len(g.tried) >= maxTried {
			clear(g.tried)
		}
		g.tried[statement] = struct{}{}
	}
	return false
}

// mayRemove says whether the author of a removal is a full member.
func (g *Guard) mayRemove(r replica.Removal) bool {
	return g.o.Trust.IsPinned(r.By, r.ByKey) && !g.o.Trust.IsEdge(r.By)
}

// decideLocked decides on a removal by another member.
func (g *Guard) decideLocked(r replica.Removal) removalguard.Standing {
	held := removalguard.Standing{Held: true}
	if !g.mayRemove(r) {
		return held // nobody here can say on whose word its author is a member, or it is one that removes nobody
	}
	key, pinned := g.o.Trust.Key(r.ClusterID)
	t := g.treeLocked()
	switch {
	case r.ClusterID == g.o.ClusterID:
		return removalguard.Standing{Held: r.PublicKey.Equal(g.o.Key) && !t.Refused(r.By, g.o.Refuses)}
	case !pinned && g.o.Trust.Reserved(r.ClusterID), pinned && !key.Equal(r.PublicKey) && g.o.Trust.Swapped(r.ClusterID):
		return removalguard.Standing{} // it ends nothing
	case !pinned && g.meets[r.ClusterID] == 0:
		return held // until it is introduced
	}
	head := g.with[r.ClusterID][r.By]
	if head != nil && !g.o.Met(r.ClusterID) {
		return removalguard.Standing{Charge: head}
	}
	s := t.Decide(slices.Collect(maps.Values(g.charged)), r.By, r.ClusterID)
	if !s.Held {
		g.takeAlongLocked(t, s.Charge)
	}
	return s
}

// takeAlongLocked notes what goes with a removal that takes effect: what was removed of its branch before counts as one with it, and
// what is held is asked about again.
func (g *Guard) takeAlongLocked(t *removalguard.Tree, c *removalguard.Charge) {
	for p, other := range g.charged {
		if other != c && t.Belongs(other, c) {
			one := *other
			one.Unit = c.Unit
			g.charged[p], g.of[p].Standing.Charge, g.again[p] = &one, &one, struct{}{}
		}
	}
	g.goAlongLocked(c)
	for _, id := range c.Branch {
		for _, p := range g.byID[id] {
			if r := g.of[p]; r.Standing.Held && r.By == c.To[0] {
				g.again[p] = struct{}{}
			}
		}
	}
}

// goAlongLocked has the branch of what was removed count as one with it.
func (g *Guard) goAlongLocked(c *removalguard.Charge) {
	for _, id := range c.Branch {
		if g.with[id] == nil {
			g.with[id] = map[string]*removalguard.Charge{}
		}
		g.with[id][c.To[0]] = c
	}
}

func (g *Guard) treeLocked() *removalguard.Tree {
	if version := g.o.Trust.Version(); g.tree == nil || version != g.ofTree {
		g.tree, g.ofTree = removalguard.NewTree(g.o.ClusterID, g.o.Members(), g.o.Met), version
	}
	return g.tree
}

// Again lists, once, the removals that are to be asked about again: see replica.Reconsider.
func (g *Guard) Again() (all []replica.Removal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.again {
		all = append(all, *g.of[p])
	}
	clear(g.again)
	slices.SortFunc(all, compare)
	return all
}

// Pending says that Again lists something.
func (g *Guard) Pending() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.again) > 0
}

func compare(a, b replica.Removal) int {
	return cmp.Or(cmp.Compare(a.ByName, b.ByName), cmp.Compare(a.By, b.By), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ClusterID, b.ClusterID), cmp.Compare(string(a.PublicKey), string(b.PublicKey)))
}

// Confirm confirms the removals that a person here names, held ones and others, and returns them. They are asked about again.
func (g *Guard) Confirm(names []trust.Name) (confirmed []replica.Removal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		for _, p := range g.byID[name.ClusterID] {
			r := g.of[p]
			if s := r.Standing; !name.Means(r.ClusterID, r.PublicKey) || !s.Held && s.Charge == nil {
				continue
			}
			g.putLocked(*r, removalguard.Standing{})
			g.again[p] = struct{}{}
			confirmed = append(confirmed, *g.of[p])
		}
	}
	return confirmed
}

// Held returns the removal of a cluster's key, if it is held.
func (g *Guard) Held(clusterID string, key ed25519.PublicKey) (replica.Removal, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.of[pair{clusterID, string(key)}]; r != nil && r.Standing.Held {
		return *r, true
	}
	return replica.Removal{}, false
}

// Meet is called before a cluster that was not known is pinned: removals of it are asked about that waited for that.
func (g *Guard) Meet(clusterID string, reconsider func(clusterID string, key []byte)) {
	g.mu.Lock()
	var waiting []pair
	for _, p := range g.byID[clusterID] {
		if g.of[p].Standing.Held {
			waiting = append(waiting, p)
		}
	}
	if _, pinned := g.o.Trust.Key(clusterID); pinned || len(waiting) == 0 {
		g.mu.Unlock()
		return
	}
	g.meets[clusterID]++
	g.mu.Unlock()
	for _, p := range waiting {
		reconsider(p.clusterID, []byte(p.key))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.meets[clusterID]--; g.meets[clusterID] == 0 {
		delete(g.meets, clusterID)
	}
}

// Pinned is called after a cluster was pinned: what it ordered is asked about again that was held since it was not.
func (g *Guard) Pinned(clusterID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.strange {
		if r := g.of[p]; r.By == clusterID && g.o.Trust.IsPinned(r.By, r.ByKey) {
			g.again[p] = struct{}{}
		}
	}
}
