// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
)

// Admission is the signed statement of a member, its author, that it admits a cluster under a key.
type Admission struct {
	Author    string
	ClusterID string
	PublicKey ed25519.PublicKey
	// Via is empty where a person had the author admit the cluster. Else the author has pinned it on the word of a member
	// that signs no admissions, and Via is that one: the admission counts no more once it is removed.
	Via string
}

// admissions are those that are held, as their authors have them now.
type admissions struct {
	of map[string]map[string]Admission // subject → author
	by map[string]keys                 // author → subjects
}

func newAdmissions() admissions {
	return admissions{map[string]map[string]Admission{}, map[string]keys{}}
}

func (a *admissions) put(n Admission) {
	if a.of[n.ClusterID] == nil {
		a.of[n.ClusterID] = map[string]Admission{}
	}
	if a.by[n.Author] == nil {
		a.by[n.Author] = keys{}
	}
	a.of[n.ClusterID][n.Author] = n
	a.by[n.Author][n.ClusterID] = struct{}{}
}

func (a *admissions) drop(author, subject string) {
	delete(a.of[subject], author)
	if len(a.of[subject]) == 0 {
		delete(a.of, subject)
	}
	delete(a.by[author], subject)
	if len(a.by[author]) == 0 {
		delete(a.by, author)
	}
}

// admit takes an admission, or a later one of that author for that cluster. Nobody admits itself, and this cluster needs none; but
// who admitted it signs admissions.
func (g *Graph) admit(a Admission) (did change) {
	_, known := g.admissions.of[a.ClusterID][a.Author]
	if a.Author == a.ClusterID || a.Author == g.self || !known && len(g.admissions.by[a.Author]) >= MaxPins {
		return change{}
	}
	g.admissions.put(a)
	if a.ClusterID == g.self {
		return change{}
	}
	if pin, ok := g.pins[a.ClusterID]; ok && pin.PublicKey.Equal(a.PublicKey) {
		did, _ = g.add(Pin{ClusterID: a.ClusterID, PublicKey: a.PublicKey, Introducer: a.Author}, false) // an authority's word is more than another's
		return did
	}
	return g.review(a.ClusterID)
}

// admits says whether an admission pins its cluster: its author is a member, and so is who it relies on.
func (g *Graph) admits(a Admission) bool {
	_, member := g.pins[a.Author]
	return member && (a.Via == "" || !g.isOut(a.Via))
}

// isOut says that a cluster is no member, since another one removed a key of it.
func (g *Graph) isOut(id string) bool {
	_, member := g.pins[id]
	return !member && slices.ContainsFunc(slices.Collect(maps.Values(g.statements[id])), func(s Statement) bool { return !s.Left })
}

// voucher is the member on whose word a cluster that came from p.Introducer is pinned: an author of an admission, first an
// authority, then one that a person has pinned. Who signs admissions vouches for nobody else. Members of versions that sign
// none vouch for what they send; "" is nobody.
func (g *Graph) voucher(p Pin) (id string) {
	best := 3
	for _, author := range slices.Sorted(maps.Keys(g.admissions.of[p.ClusterID])) {
		a := g.admissions.of[p.ClusterID][author]
		if !a.PublicKey.Equal(p.PublicKey) || !g.admits(a) {
			continue
		}
		rank := 2
		switch {
		case g.isAuthority(author):
			rank = 0
		case g.pins[author].Introducer == "":
			rank = 1
		}
		if rank < best {
			id, best = author, rank
		}
	}
	if _, signs := g.admissions.by[p.Introducer]; id == "" && !signs {
		return p.Introducer
	}
	return id
}

// Word is on whose word a member is pinned.
type Word struct {
	Author string // this cluster, where a person here decided it
	Via    string // see Admission; "" if that is no member
	Signed bool   // there is an admission
}

// words lists on whose word a member is pinned, ordered. Of an introduction without an admission that is who brought it. Nobody
// is left where all those have been removed.
func (g *Graph) words(id string) (all []Word) {
	pin, ok := g.pins[id]
	if !ok || id == g.self {
		return nil
	}
	if a, ok := g.ownOf(id, pin); ok {
		all = append(all, Word{g.self, a.Via, true})
	}
	of := g.admissions.of[id]
	for _, author := range slices.Sorted(maps.Keys(of)) {
		if a := of[author]; a.PublicKey.Equal(pin.PublicKey) && g.admits(a) {
			all = append(all, Word{author, g.member(a.Via), true})
		}
	}
	if a, ok := of[pin.Introducer]; g.member(pin.Introducer) != "" && (!ok || !a.PublicKey.Equal(pin.PublicKey)) {
		all = append(all, Word{Author: pin.Introducer})
	}
	return all
}

// member is a cluster, if it is a member, or "".
func (g *Graph) member(id string) string {
	if _, ok := g.pins[id]; ok {
		return id
	}
	return ""
}

// vouch has this cluster answer for members.
func (g *Graph) vouch(ids []string) (did change) {
	for _, id := range ids {
		if pin, ok := g.pins[id]; ok && id != g.self {
			pin.Vouched = true
			g.pins[id] = pin
			did.pinned = append(did.pinned, pin)
		}
	}
	return did
}

// own lists what this cluster admits: those that a person here did, and those that it answers for. A member that admitted nobody
// would vouch for whom it forwards, as those of earlier versions do; so there is always one.
func (g *Graph) own() (all []Admission) {
	first := ""
	for id, pin := range g.pins {
		if a, ok := g.ownOf(id, pin); ok {
			all = append(all, a)
		}
		if id != g.self && (first == "" || id < first) {
			first = id
		}
	}
	if len(all) == 0 && first != "" {
		return []Admission{g.say(first, g.pins[first])}
	}
	slices.SortFunc(all, func(a, b Admission) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return all
}

func (g *Graph) ownOf(id string, pin Pin) (Admission, bool) {
	if id == g.self || pin.Introducer != "" && !pin.Vouched {
		return Admission{}, false
	}
	return g.say(id, pin), true
}

func (g *Graph) say(id string, pin Pin) Admission {
	return Admission{g.self, id, pin.PublicKey, g.member(pin.Introducer)}
}
