// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"

	"github.com/roster-mesh/roster/mesh/trust/branch"
)

// Bounds of the newcomers that are remembered, to be shown. One that finds no room waits like the others. Where all are taken,
// one of the member that brought most makes room for those of others.
const (
	maxWaiting   = 64
	maxWaitingBy = 16 // that one member introduced
)

// Statement says that a key does not speak for a cluster any more.
type Statement struct {
	ClusterID string
	PublicKey ed25519.PublicKey
	Left      bool              // the key itself said so; else another member did
	Successor ed25519.PublicKey // if Left, and optional: the key that the cluster goes on under
}

// keys is a set of public keys.
type keys map[string]struct{}

// Graph is what is known of keys, and decides which are pinned. It is not safe for concurrent use.
type Graph struct {
	self        string
	authorities []Name
	approved    []Name

	pins       map[string]Pin
	owners     map[string]string               // public key → clusterID
	statements map[string]map[string]Statement // clusterID → public key → what was said of it
	removed    map[string]keys                 // public key → clusterIDs that it was removed of
	had        map[string]map[string]bool      // clusterID → public key that was pinned here → a person or an authority admitted it
	waiting    map[string]map[string]Newcomer  // clusterID → public key
	lines      map[string]*line                // by clusterID, as far as they were asked for
	admissions admissions
	arranged   map[string]string // who is below whom, also of those that have ended and led to members; it is not changed
	branches   *branch.Tree      // nil when they must be counted again
	version    uint64            // another one after each change of what is pinned, and on whose word
}

// line is what is known of the keys of a cluster.
type line struct {
	reserved   bool
	successors keys
}

// change is what a call did.
type change struct {
	pinned []Pin    // new, or stronger than before
	ended  []string // clusterIDs
	waits  []Newcomer
}

func newGraph(self Pin, authorities []Name) *Graph {
	return &Graph{
		self:        self.ClusterID,
		authorities: authorities,
		pins:        map[string]Pin{self.ClusterID: self},
		owners:      map[string]string{string(self.PublicKey): self.ClusterID},
		statements:  map[string]map[string]Statement{},
		removed:     map[string]keys{},
		had:         map[string]map[string]bool{},
		waiting:     map[string]map[string]Newcomer{},
		lines:       map[string]*line{},
		admissions:  newAdmissions(),
	}
}

// add pins a key, unless something is against it. One that was pinned in an earlier run is not weighed by an authority again.
func (g *Graph) add(p Pin, restored bool) (did change, err error) {
	if _, ok := g.statements[p.ClusterID][string(p.PublicKey)]; ok {
		return change{}, ErrRemoved
	}
	from := p.Introducer
	p = g.weigh(p, restored)
	held, known := g.pins[p.ClusterID]
	switch {
	case known && !held.PublicKey.Equal(p.PublicKey):
		return change{}, ErrPinned
	case known:
		stronger := false
		if p, stronger = strengthened(held, p); !stronger {
			return change{}, nil
		}
	default:
		if _, ok := g.owners[string(p.PublicKey)]; ok {
			return change{}, ErrKeyInUse
		}
		if p.Introducer != "" && (restored && len(g.pins) >= MaxPins || !restored && !g.room(p.Introducer)) {
			return change{}, ErrFull
		}
		nobody := p.Introducer == "" && !p.Admitted
		if !g.stands(p) || !restored && g.unsure(p) {
			p.Introducer = cmp.Or(p.Introducer, from)
			if g.wait(p) {
				did.waits = []Newcomer{{p.ClusterID, p.PublicKey, p.Introducer}}
			}
			return did, ErrReserved
		}
		if nobody {
			return change{}, ErrNotAdmitted
		}
	}
	return change{pinned: g.pin(p)}, nil
}

// weigh notes on a pin who admitted it. Where nobody did, it has no introducer, and is not admitted.
func (g *Graph) weigh(p Pin, restored bool) Pin {
	person := p.Introducer == ""
	if !person && !restored {
		p.Introducer, p.Edge = g.voucher(p)
	}
	if person || slices.ContainsFunc(g.approved, func(n Name) bool { return n.Means(p.ClusterID, p.PublicKey) }) {
		p.Introducer, p.Admitted = "", true
		return p
	}
	p.Admitted = p.Admitted || p.Introducer != "" && g.isAuthority(p.Introducer)
	return p
}

// isAuthority says whether a member may admit a cluster that was removed.
func (g *Graph) isAuthority(id string) bool {
	return slices.ContainsFunc(g.authorities, func(n Name) bool { return n.ClusterID == id && g.counts(n) })
}

// counts says whether an authority is named by its key, or a person has pinned that: any member may introduce a clusterID under
// a key of its own before the cluster itself comes.
func (g *Graph) counts(n Name) bool {
	pin, ok := g.pins[n.ClusterID]
	return ok && !pin.Edge && n.Means(n.ClusterID, pin.PublicKey) && (n.Fingerprint != "" || pin.Introducer == "")
}

// stands says whether nothing that is known is against a pin, or somebody who may has admitted it.
func (g *Graph) stands(p Pin) bool {
	return p.ClusterID == g.self || p.Admitted || !g.reserved(p.ClusterID) || g.succeeds(p.ClusterID, string(p.PublicKey))
}

// reserved says whether a cluster was removed by another member, or left under a key that was pinned here. The leave of a
// key that never was may be made up, as may the key.
func (g *Graph) reserved(id string) bool { return g.line(id).reserved }

// guards says whether this cluster is an authority and has heard that a key of the cluster ended. It may have joined later
// than others pinned that key, who take its word for whom it takes.
func (g *Graph) guards(id string) bool { return len(g.statements[id]) > 0 && g.isAuthority(g.self) }

// unsure says whether an authority must not take a newcomer: nobody admitted it, and no line that was proven here leads to it.
func (g *Graph) unsure(p Pin) bool {
	return !p.Admitted && g.guards(p.ClusterID) && !g.succeeds(p.ClusterID, string(p.PublicKey))
}

// succeeds says whether leaves of the cluster lead to a key, from one that was admitted here; or, while no other member
// has removed any key of the cluster, from one that was pinned here.
func (g *Graph) succeeds(id, key string) bool {
	_, ok := g.line(id).successors[key]
	return ok
}

// line is what the statements about a cluster and the keys that were pinned here come to. It is kept until one of them changes:
// a member can make up any number of newcomers.
func (g *Graph) line(id string) *line {
	if l, ok := g.lines[id]; ok {
		return l
	}
	l, of, removed := &line{successors: keys{}}, g.statements[id], false
	for key, s := range of {
		_, had := g.had[id][key]
		removed = removed || !s.Left
		l.reserved = l.reserved || had || !s.Left
	}
	var next []string
	for key, admitted := range g.had[id] {
		if admitted || !removed {
			next = append(next, key)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		s := of[next[0]]
		if !s.Left || len(s.Successor) == 0 {
			continue
		}
		successor := string(s.Successor)
		if _, seen := l.successors[successor]; !seen { // or they name each other
			l.successors[successor] = struct{}{}
			next = append(next, successor)
		}
	}
	if len(of) > 0 { // or whoever makes up clusterIDs fills the memory
		g.lines[id] = l
	}
	return l
}

// leftUnder lists the keys that were pinned for a cluster here and have left, ordered.
func (g *Graph) leftUnder(id string) (of []ed25519.PublicKey) {
	for _, key := range slices.Sorted(maps.Keys(g.had[id])) {
		if g.statements[id][key].Left {
			of = append(of, ed25519.PublicKey(key))
		}
	}
	return of
}

// wait remembers a newcomer, and says whether it is a new one.
func (g *Graph) wait(p Pin) bool {
	if _, ok := g.waiting[p.ClusterID][string(p.PublicKey)]; ok {
		return false
	}
	all, by := 0, map[string]int{}
	for _, of := range g.waiting {
		for _, n := range of {
			all++
			by[n.Introducer]++
		}
	}
	if by[p.Introducer] >= maxWaitingBy || all >= maxWaiting && !g.makeRoom(by, by[p.Introducer]+1) {
		return false
	}
	if g.waiting[p.ClusterID] == nil {
		g.waiting[p.ClusterID] = map[string]Newcomer{}
	}
	g.waiting[p.ClusterID][string(p.PublicKey)] = Newcomer{p.ClusterID, p.PublicKey, p.Introducer}
	return true
}

// makeRoom forgets a newcomer of the member that has introduced most, if that is more than some number.
func (g *Graph) makeRoom(by map[string]int, than int) bool {
	most := ""
	for _, introducer := range slices.Sorted(maps.Keys(by)) {
		if by[introducer] > by[most] {
			most = introducer
		}
	}
	if by[most] <= than {
		return false
	}
	all := g.newcomers()
	first := all[slices.IndexFunc(all, func(n Newcomer) bool { return n.Introducer == most })]
	g.waitsNoMore(func(n Newcomer) bool { return n.ClusterID == first.ClusterID && n.PublicKey.Equal(first.PublicKey) })
	return true
}

// waitsNoMore forgets newcomers.
func (g *Graph) waitsNoMore(of func(Newcomer) bool) {
	for id, newcomers := range g.waiting {
		maps.DeleteFunc(newcomers, func(_ string, n Newcomer) bool { return of(n) })
		if len(newcomers) == 0 {
			delete(g.waiting, id)
		}
	}
}

// pin pins a key, and returns all pins that are new or stronger by that.
func (g *Graph) pin(p Pin) []Pin {
	g.put(p)
	g.owners[string(p.PublicKey)] = p.ClusterID
	g.recall(p.ClusterID, p.PublicKey, p.Admitted)
	delete(g.waiting, p.ClusterID) // with another key, too: the pin stays
	return append([]Pin{p}, g.widen(p.ClusterID)...)
}

// put sets the pin of a cluster.
func (g *Graph) put(p Pin) {
	if held, ok := g.pins[p.ClusterID]; !ok || !held.equal(p) {
		g.version++
		if g.pins[p.ClusterID] = p; ok || g.branches != nil && !g.branches.Add(p.ClusterID) {
			g.branches = nil
		}
	}
}

// recall notes that a key was pinned.
func (g *Graph) recall(id string, key ed25519.PublicKey, admitted bool) {
	if g.had[id] == nil {
		g.had[id] = map[string]bool{}
	}
	g.had[id][string(key)] = g.had[id][string(key)] || admitted
	delete(g.lines, id)
}

func (g *Graph) unpin(id string) (did change) {
	p, ok := g.pins[id]
	if !ok || id == g.self {
		return change{}
	}
	g.inherit(id)
	g.version++
	g.branches = nil
	delete(g.pins, id)
	delete(g.owners, string(p.PublicKey))
	g.waitsNoMore(func(n Newcomer) bool { return n.Introducer == id })
	return change{ended: []string{id}}
}

// end takes a statement. Of two about one key, that of another member stays, and of two leaves the last one.
func (g *Graph) end(s Statement) change {
	key := string(s.PublicKey)
	if held, ok := g.statements[s.ClusterID][key]; ok && !held.Left && s.Left {
		return change{}
	}
	if g.statements[s.ClusterID] == nil {
		g.statements[s.ClusterID] = map[string]Statement{}
	}
	if g.removed[key] == nil {
		g.removed[key] = keys{}
	}
	g.say(g.admissions.via(s.ClusterID), func() { g.statements[s.ClusterID][key] = s })
	delete(g.lines, s.ClusterID)
	g.removed[key][s.ClusterID] = struct{}{}
	g.waitsNoMore(func(n Newcomer) bool { return n.ClusterID == s.ClusterID && n.PublicKey.Equal(s.PublicKey) })
	return g.review(s.ClusterID)
}

// review ends the pin of a cluster if it does not stand any more, and pins a newcomer that is admitted now.
func (g *Graph) review(id string) (did change) {
	if pin, ok := g.pins[id]; ok && id != g.self {
		if !g.isRemoved(pin) && g.stands(pin) {
			return change{}
		}
		did = g.unpin(id)
		if !g.isRemoved(pin) && g.wait(pin) {
			did.waits = []Newcomer{{pin.ClusterID, pin.PublicKey, pin.Introducer}}
		}
	}
	newcomers := slices.SortedFunc(maps.Values(g.waiting[id]), func(a, b Newcomer) int { return cmp.Compare(string(a.PublicKey), string(b.PublicKey)) })
	for _, n := range newcomers {
		p := g.weigh(Pin{ClusterID: n.ClusterID, PublicKey: n.PublicKey, Introducer: n.Introducer}, false)
		if _, used := g.owners[string(n.PublicKey)]; !used && (p.Introducer != "" || p.Admitted) && g.stands(p) && !g.unsure(p) {
			did.pinned, did.waits = g.pin(p), nil
			break
		}
	}
	return did
}

func (g *Graph) isRemoved(p Pin) bool {
	_, ok := g.statements[p.ClusterID][string(p.PublicKey)]
	return ok
}

// approve sets whom a person here approves of. What is pinned, or waits, is reviewed.
func (g *Graph) approve(names []Name) (did change) {
	g.approved = names
	for _, n := range names {
		if p, ok := g.pins[n.ClusterID]; ok && p.Introducer != "" && n.Means(p.ClusterID, p.PublicKey) {
			did.pinned = append(did.pinned, g.pin(g.weigh(p, true))...)
			continue
		}
		did.pinned = append(did.pinned, g.review(n.ClusterID).pinned...)
	}
	return did
}

// newcomers lists who waits, ordered by clusterID and key.
func (g *Graph) newcomers() (all []Newcomer) {
	for _, of := range g.waiting {
		all = slices.AppendSeq(all, maps.Values(of))
	}
	slices.SortFunc(all, func(a, b Newcomer) int {
		return cmp.Or(cmp.Compare(a.ClusterID, b.ClusterID), cmp.Compare(string(a.PublicKey), string(b.PublicKey)))
	})
	return all
}
