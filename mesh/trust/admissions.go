// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
	"strings"
)

// Admission is the signed statement of a member, its author, that it admits a cluster under a key.
type Admission struct {
	Author    string
	ClusterID string
	PublicKey ed25519.PublicKey
	// Via is empty where a person had the author admit the cluster. Else the author has pinned it on the word of a member
	// that signs no admissions, and Via is that one: the admission counts no more once it is removed.
	Via string
	// Edge says that the cluster is admitted as an edge: see Pin.
	Edge bool
}

// admissions are those that are held, as their authors have them now.
type admissions struct {
	of    map[string]map[string]Admission // subject → author
	by    map[string]keys                 // author → subjects
	signs keys                            // members that sign admissions, whether they have admitted anybody or not
}

func newAdmissions() admissions {
	return admissions{map[string]map[string]Admission{}, map[string]keys{}, keys{}}
}

// isSigner says whether a member signs admissions, and so vouches for nobody else.
func (a *admissions) isSigner(id string) bool {
	_, says := a.signs[id]
	return says || len(a.by[id]) > 0
}

// via lists the subjects of admissions that rely on a cluster.
func (a *admissions) via(id string) (subjects []string) {
	for subject, by := range a.of {
		for _, n := range by {
			if n.Via == id {
				subjects = append(subjects, subject)
			}
		}
	}
	return subjects
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
	g.say([]string{a.ClusterID}, func() { g.admissions.put(a) })
	if a.ClusterID == g.self {
		return change{}
	}
	if pin, ok := g.pins[a.ClusterID]; ok && pin.PublicKey.Equal(a.PublicKey) {
		did, _ = g.add(Pin{ClusterID: a.ClusterID, PublicKey: a.PublicKey, Introducer: a.Author}, false) // an authority's word is more than another's
		return did
	}
	return g.review(a.ClusterID)
}

// withdraw takes back an admission.
func (g *Graph) withdraw(author, subject string) {
	g.say([]string{subject}, func() { g.admissions.drop(author, subject) })
}

// say does what may change on whose word some clusters are pinned.
func (g *Graph) say(subjects []string, do func()) {
	words := func() (all []Word) {
		for _, id := range subjects {
			all = append(append(all, g.words(id)...), Word{})
		}
		return all
	}
	before := words()
	if do(); !slices.Equal(before, words()) {
		g.version++
	}
}

// admits says whether an admission pins its cluster: its author is a member that may admit others, and who it relies on is a member.
func (g *Graph) admits(a Admission) bool {
	author, member := g.pins[a.Author]
	return member && !author.Edge && (a.Via == "" || !g.isOut(a.Via))
}

// isOut says that a cluster is no member, since another one removed a key of it.
func (g *Graph) isOut(id string) bool {
	_, member := g.pins[id]
	return !member && slices.ContainsFunc(slices.Collect(maps.Values(g.statements[id])), func(s Statement) bool { return !s.Left })
}

// voucher is the member on whose word a cluster that came from p.Introducer is pinned: an author of an admission, first an
// authority, then one that a person has pinned. Who signs admissions vouches for nobody else. Members of versions that sign
// none vouch for what they send; "" is nobody. edge says that nobody admits it as more than an edge.
func (g *Graph) voucher(p Pin) (id string, edge bool) {
	best, edge := 3, true
	for _, author := range slices.Sorted(maps.Keys(g.admissions.of[p.ClusterID])) {
		a := g.admissions.of[p.ClusterID][author]
		if !a.PublicKey.Equal(p.PublicKey) || !g.admits(a) {
			continue
		}
		edge = edge && a.Edge
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
	if introducer := g.pins[p.Introducer]; id == "" && !introducer.Edge && !g.admissions.isSigner(p.Introducer) {
		return p.Introducer, g.pins[p.ClusterID].Edge
	}
	return id, edge
}

// Word is on whose word a member is pinned.
type Word struct {
	Author string `json:"author,omitempty"` // this cluster, where a person here decided it, or nobody knows any more who did
	Via    string `json:"via,omitempty"`    // see Admission; "" if that is no member
	For    string `json:"for,omitempty"`    // the clusters that have ended in whose place it stands, as Ended lists them
	Signed bool   `json:"-"`                // there is an admission, which grants as much as the member has: others know it by that
}

// Lost stands, in Word.For, for clusters of which nobody knows any more. No cluster has that clusterID.
const Lost = "-"

// maxEnded bounds how many clusters that have ended a word names: those nearest to this cluster, which others were below.
const maxEnded = 8

// Ended lists the clusters that have ended in whose place a word stands, each after who led to it, the last of which led to the
// member. They have their place in the tree of admissions still: what a member invents does not come out from below it when it leaves.
func (w Word) Ended() []string {
	if w.For == "" {
		return nil
	}
	return strings.Split(w.For, "/")
}

// lost is the word of this cluster where it is not known whose it had been.
func (g *Graph) lost() Word { return Word{Author: g.self, For: Lost} }

// words lists on whose word a member is pinned. Of an introduction without an admission that is who brought it. Where that one has
// ended, and nothing is known of what it had been pinned on, the member stays on the word of this cluster.
func (g *Graph) words(id string) (all []Word) {
	pin, ok := g.pins[id]
	if !ok || id == g.self {
		return nil
	}
	say := func(author, via string, edge bool) { // unless who it relies on has ended, and left others to rely on
		if g.member(via) != via && slices.ContainsFunc(pin.Past, func(w Word) bool { return cmp.Or(w.Author, g.self) == author }) {
			return
		}
		all = append(all, Word{Author: author, Via: g.member(via), Signed: pin.Edge || !edge})
	}
	if a, ok := g.ownOf(id, pin); ok {
		say(g.self, a.Via, a.Edge)
	}
	for _, w := range pin.Past {
		if w == (Word{}) { // of an earlier version, which had too many
			w.For = Lost
		}
		if w.Author = cmp.Or(w.Author, g.self); g.member(w.Author) == "" || g.member(w.Via) != w.Via {
			w = g.lost() // it ended before that was recorded: an earlier run crashed
		}
		all = append(all, w)
	}
	if pin.Introducer != "" && g.member(pin.Introducer) == "" && len(all) == 0 {
		all = append(all, g.lost())
	}
	of := g.admissions.of[id]
	for _, author := range slices.Sorted(maps.Keys(of)) {
		if a := of[author]; a.PublicKey.Equal(pin.PublicKey) && g.admits(a) {
			say(author, a.Via, a.Edge)
		}
	}
	if a, ok := of[pin.Introducer]; g.member(pin.Introducer) != "" && (!ok || !a.PublicKey.Equal(pin.PublicKey)) {
		all = append(all, Word{Author: pin.Introducer})
	}
	return all
}

// maxPast bounds how many words a pin keeps of members that have ended.
const maxPast = 8

// inherit has the members that a cluster led to, which ends, keep on the words that led to that one: so whoever has it end takes
// over nothing that it admitted, and what it had been told to admit stays with who told it. Where that is not known, they stay on the
// word of this cluster, together.
func (g *Graph) inherit(id string) {
	up := g.words(id)
	if len(up) == 0 {
		up = []Word{g.lost()}
	}
	for subject, pin := range g.pins {
		if subject == id || subject == g.self || pin.Introducer == "" || !g.relies(pin, id) {
			continue
		}
		past := slices.DeleteFunc(slices.Clone(pin.Past), func(w Word) bool { return w.names(id) })
		for _, w := range g.words(subject) {
			if w.names(id) {
				past = g.append(past, subject, w, id, up)
			}
		}
		pin.Past = past
		g.put(pin)
	}
}

// append appends a word on a subject, with those of up in place of who ends.
func (g *Graph) append(past []Word, subject string, w Word, ends string, up []Word) []Word {
	for _, u := range up {
		ended := slices.Concat(u.Ended(), []string{ends}, w.Ended())
		n := Word{Author: w.Author, Via: u.Author, For: strings.Join(ended[:min(len(ended), maxEnded)], "/")}
		if w.Author == ends {
			if n = (Word{Author: u.Author, Via: w.Via, For: n.For}); w.Via == "" || w.Via == ends {
				n.Via = u.Via
			}
		}
		if n.names(subject) || n.names(ends) {
			continue // a circle
		}
		if n.Via == n.Author || n.Via == g.self {
			n.Via = ""
		}
		if n.Author == g.self {
			n.Author = ""
		}
		if slices.ContainsFunc(past, n.addsNothing) {
			continue
		}
		past = append(slices.DeleteFunc(past, func(w Word) bool { return w.addsNothing(n) }), n)
		if len(past) > maxPast {
			past = []Word{g.common(past, subject, ends)}
		}
	}
	return past
}

// common is the word of the nearest cluster that all of several words on a subject lead through, once that ends which does.
func (g *Graph) common(past []Word, subject, ends string) Word {
	way := g.way(past[0])
	for _, w := range past[1:] {
		to := g.way(w)
		same := 0
		for same < min(len(way), len(to)) && way[same] == to[same] {
			same++
		}
		way = way[:same]
	}
	if at := slices.Index(way, subject); at >= 0 {
		way = way[:at]
	}
	at := len(way)
	for at > 0 && (way[at-1] == ends || g.member(way[at-1]) == "") {
		at--
	}
	switch ended := way[at:]; {
	case len(way) == 0:
		return Word{For: Lost}
	case at == 0:
		return Word{For: strings.Join(ended[:min(len(ended), maxEnded)], "/")}
	default:
		return Word{Author: way[at-1], For: strings.Join(ended[:min(len(ended), maxEnded)], "/")}
	}
}

// way lists which clusters a word leads through, first the one right below this cluster. It is none where a word takes two that are
// not one below the other.
func (g *Graph) way(w Word) []string {
	ways := g.branchesNow().Ways()
	way, via := ways[w.Author], ways[w.Via]
	if w.Via != "" {
		if len(via) > len(way) {
			way, via = via, way
		}
		if !slices.Equal(way[:len(via)], via) {
			return nil
		}
	}
	return slices.Concat(way, w.Ended())
}

// addsNothing says that a word changes nothing beside another one: that is the same, or of this cluster alone, by way of the same that ended last.
func (w Word) addsNothing(to Word) bool {
	return w == to || to.Author == "" && to.Via == "" && strings.HasSuffix("/"+w.For, "/"+to.For)
}

func (w Word) names(id string) bool { return w.Author == id || w.Via == id }

// relies says whether one of the words on a member may name a cluster.
func (g *Graph) relies(pin Pin, id string) bool {
	if pin.Introducer == id || slices.ContainsFunc(pin.Past, func(w Word) bool { return w.names(id) }) {
		return true
	}
	for author, a := range g.admissions.of[pin.ClusterID] {
		if author == id || a.Via == id {
			return true
		}
	}
	return false
}

// member is a cluster, if it is a member, or "".
func (g *Graph) member(id string) string {
	if _, ok := g.pins[id]; ok {
		return id
	}
	return ""
}

// vouch has this cluster answer for members: because a person keeps them, or else on the word of their introducers, where those
// are members.
func (g *Graph) vouch(ids []string, keep bool) (did change) {
	for _, id := range ids {
		if pin, ok := g.pins[id]; ok && id != g.self {
			pin.Kept = pin.Kept || keep || !pin.Vouched && g.member(pin.Introducer) == ""
			pin.Vouched = true
			g.put(pin)
			did.pinned = append(did.pinned, pin)
		}
	}
	return did
}

// own lists what this cluster admits: those that a person here did, and those that it answers for.
func (g *Graph) own() (all []Admission) {
	for id, pin := range g.pins {
		if a, ok := g.ownOf(id, pin); ok {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b Admission) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return all
}

func (g *Graph) ownOf(id string, pin Pin) (Admission, bool) {
	if id == g.self || pin.Introducer != "" && !pin.Vouched {
		return Admission{}, false
	}
	return g.admission(id, pin), true
}

func (g *Graph) admission(id string, pin Pin) Admission {
	if pin.Kept {
		pin.Introducer = ""
	}
	return Admission{g.self, id, pin.PublicKey, pin.Introducer, pin.Edge}
}
