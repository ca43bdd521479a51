// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// job is everything that is known about one key at one moment, still packed.
type job struct {
	key    Key
	gvk    schema.GroupVersionKind // empty when no usable rule is about the kind
	local  *copied
	claims []claim
	// ownerGone says that the owner of local has left the group.
	ownerGone bool
	// foreign says that an object without marks was in the way; judged that it still is, as it was, and of
	// what content: rivals offer something else. It is read again after recheck, if that is set.
	foreign, judged bool
	rivals          []string
	recheck         time.Duration
}

// claim is a syncrules.Claim in the making.
type claim struct {
	syncrules.Claim
	rules   []*syncrules.Rule
	names   []string
	object  packed
	content uint64 // of what a copy would be but for the owner's mark
	arrived time.Time
}

// gather collects what is known about a key; nil when nothing may be decided yet. mu is held.
func (e *Engine) gather(key Key) *job {
	if !e.ready || !e.localComplete(key.GroupKind, key.Namespace) {
		return nil
	}
	j := &job{key: key}
	if c := e.copyAt(key); c != nil {
		taken := *c // the fields of c change under mu
		j.local = &taken
		if p := e.peers[c.owner]; p != nil {
			j.ownerGone = p.Left
		}
	}
	k := e.kinds[key.GroupKind]
	if k == nil {
		k = &kind{}
	}
	j.gvk = k.gvk
	e.gatherClaims(j, k)
	e.gatherVerdict(j)
	if j.local == nil {
		e.gatherAwaited(j, k)
	}
	return j
}

// gatherClaims asks the peers whose claims can matter, in order: the owner of the copy, for all rules, and those
// that have an entry for the place, for the rules that select it.
func (e *Engine) gatherClaims(j *job, k *kind) {
	owner := ""
	if j.local != nil {
		owner = j.local.owner
	}
	claim := func(id string, rules []*rule) {
		if p := e.peers[id]; p != nil && !p.Left {
			if c, ok := e.claimOf(k, rules, p, j.key, j.local); ok {
				j.claims = append(j.claims, c)
			}
		}
	}
	held := e.holders[j.key.GroupKind][j.key.place()]
	for i, n := 0, 0; i < len(held); i += n {
		id := held[i].peer
		if n = slices.IndexFunc(held[i:], func(v *view) bool { return v.peer != id }); n < 0 {
			n = len(held) - i
		}
		if owner != "" && owner <= id {
			claim(owner, k.rules)
			if owner == id {
				owner = ""
				continue
			}
			owner = ""
		}
		claim(id, e.selecting(held[i:i+n], j.key))
	}
	if owner != "" {
		claim(owner, k.rules)
	}
}

// selecting are the rules by which views of one peer have an entry, by name.
func (e *Engine) selecting(views []*view, key Key) []*rule {
	names := views[0].entries[key.place()].rules
	for _, v := range views[1:] {
		names = append(slices.Clip(names), v.entries[key.place()].rules...)
	}
	if len(views) > 1 {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	rules := make([]*rule, 0, len(names))
	for _, name := range names {
		if r := e.rules[name]; r != nil && r.kind() == key.GroupKind {
			rules = append(rules, r)
		}
	}
	return rules
}

// gatherAwaited adds the claim of a peer that was asked a moment ago and, if it has the object, comes before the
// one that is to get the copy. One is enough: when it has spoken, the key is looked at again.
func (e *Engine) gatherAwaited(j *job, k *kind) {
	gk := j.key.GroupKind
	list := e.awaited[gk]
	for len(list) > 0 && !list[0].awaited() {
		list = list[1:]
	}
	if e.awaited[gk] = list; len(list) == 0 {
		delete(e.awaited, gk)
		return
	}
	first := slices.IndexFunc(j.claims, func(c claim) bool { return c.Standing == syncrules.Offered })
	if first < 0 {
		return
	}
	for _, v := range list {
		p := e.peers[v.peer]
		if v.peer >= j.claims[first].Origin {
			return
		}
		if p == nil || p.Left || !v.scope.covers(j.key.Namespace) || !v.awaited() {
			continue
		}
		i, found := slices.BinarySearchFunc(j.claims, v.peer, func(c claim, id string) int { return cmp.Compare(c.Origin, id) })
		if found {
			continue
		}
		if e.awaitedFor(v, k, p, j.key) {
			j.claims = slices.Insert(j.claims, i, claim{Claim: syncrules.Claim{Origin: v.peer, Standing: syncrules.Awaited}})
			return
		}
	}
}

// awaitedFor says that some rule that the view is for asks for the object.
func (e *Engine) awaitedFor(v *view, k *kind, p *peer, key Key) bool {
	for name := range v.feed.judges {
		r := e.rules[name]
		if r == nil || r.kind() != key.GroupKind {
			continue
		}
		if rel, _, _ := e.relate(k, r, p); rel != asks {
			continue
		}
		if f, _ := e.find(r, v.peer, key.place()); f == awaited {
			return true
		}
	}
	return false
}

// awaits is the peer that a decision to wait is waiting for.
func (j *job) awaits() string {
	for i := range j.claims {
		if j.claims[i].Standing == syncrules.Awaited {
			return j.claims[i].Origin
		}
	}
	return ""
}

// claimOf sums up what rules say about a peer's object. Several rules may select it: then the copy is as
// all of them want it, and it stays as it is while one of those that made it has nothing to say.
func (e *Engine) claimOf(k *kind, rules []*rule, p *peer, key Key, local *copied) (claim, bool) {
	c := claim{Claim: syncrules.Claim{Origin: p.ClusterID, Standing: syncrules.Unknown}}
	var made map[string]bool // rules that made the local copy of this peer and were not met yet
	if local != nil && local.owner == p.ClusterID {
		made = make(map[string]bool, len(local.rules))
		for _, name := range local.rules {
			made[name] = true
		}
	}
	var s summary
	var offering []*rule
	for _, r := range rules {
		mine := made[r.name]
		delete(made, r.name)
		maker := local
		if !mine {
			maker = nil
		}
		rel, _, why := e.relate(k, r, p)
		switch {
		case rel == asks:
			if ent := s.ask(e, r, p, key, maker); ent != nil && ent.held == "" {
				c.rules, c.names = append(c.rules, r.compiled), ent.rules
				c.object, c.arrived, c.content = ent.object, ent.arrived, ent.sum
				offering = append(offering, r)
			}
		case rel == holds && mine:
			s.hold(syncrules.Held, why)
		case rel == asksNot && mine:
			s.release(r.compiled.RuleDeletion(), why)
		}
	}
	for name := range made {
		s.release(local.fate, "rule "+name+" is gone")
	}
	c.content = e.contentOf(c.content, offering)
	if len(c.names) != len(c.rules) { // some of the rules that select it do not ask for it
		c.names = make([]string, len(c.rules))
		for i, r := range c.rules {
			c.names[i] = r.Name()
		}
	}
	return s.conclude(c, len(c.rules) > 0)
}

// summary weighs what several rules say about one object of a peer.
type summary struct {
	held, unknown     bool // by a rule that made the copy, or by the source itself
	gone, released    bool
	standing          syncrules.Standing // of held or unknown
	goneFate, relFate v1alpha1.DeletionPolicy
	why, goneWhy      string
}

// hold notes that the copy must stay as it is.
func (s *summary) hold(standing syncrules.Standing, why string) {
	s.held, s.standing, s.why = true, max(s.standing, standing), cmp.Or(s.why, why)
}

// release and lose note the fate of the copy; of several, orphaning wins.
func (s *summary) release(fate v1alpha1.DeletionPolicy, why string) {
	s.released, s.why = true, cmp.Or(s.why, why)
	if s.relFate != v1alpha1.DeletionOrphan {
		s.relFate = fate
	}
}

func (s *summary) lose(fate v1alpha1.DeletionPolicy, why string) {
	s.gone, s.goneWhy = true, why
	if s.goneFate != v1alpha1.DeletionOrphan {
		s.goneFate = fate
	}
}

// ask looks for the object of a rule that asks for it; mine is the local copy if the rule made it.
func (s *summary) ask(e *Engine, r *rule, p *peer, key Key, mine *copied) *entry {
	state, ent := e.find(r, p.ClusterID, key.place())
	switch state {
	case present:
		if ent.held != "" {
			s.hold(syncrules.Held, ent.held)
		}
		return ent
	case awaited:
		s.unknown, s.standing = true, max(s.standing, syncrules.Awaited)
		if mine != nil {
			s.hold(syncrules.Awaited, "cluster "+p.name()+" was asked just now")
		}
	case unknown:
		s.unknown = true
		if mine != nil {
			s.hold(syncrules.Unknown, "what cluster "+p.name()+" has is not known now")
		}
	case lacking, deleted:
		switch {
		case mine == nil:
		case !mine.selectedBy(r):
			s.release(r.compiled.RuleDeletion(), "rule "+r.name+" was edited and does not select it any more")
		case !r.judged[p.ClusterID], !e.localsComplete(r):
			s.hold(syncrules.Unknown, "the copies of cluster "+p.name()+" are being looked at")
		default:
			s.lose(r.compiled.Deletion(), "it is gone in cluster "+p.name())
		}
	}
	return nil
}

func (s *summary) conclude(c claim, offered bool) (claim, bool) {
	c.Reason = s.why
	switch {
	case s.held:
		c.Standing = s.standing
	case offered:
		c.Standing = syncrules.Offered
	case s.gone:
		c.Standing, c.Fate, c.Reason = syncrules.Gone, s.goneFate, s.goneWhy
	case s.released:
		c.Standing, c.Fate = syncrules.Released, s.relFate
	case s.unknown:
		c.Standing = s.standing
	default:
		return c, false
	}
	return c, true
}

// weighed is a job made into facts, with what went wrong on the way.
type weighed struct {
	syncrules.Facts
	problem *problem
}

// weigh decodes and renders; mu is not held.
func (e *Engine) weigh(j *job) (*weighed, error) {
	w := &weighed{Facts: syncrules.Facts{Self: e.o.LocalClusterID, OwnerGone: j.ownerGone}}
	if j.local != nil {
		var err error
		if w.Local, err = j.local.object.object(); err != nil {
			return nil, fmt.Errorf("%s: %w", j.key, err)
		}
		w.Accepted, w.Tolerate = j.local.accepted, j.local.tolerated
	}
	made := map[uint64]*rendered{}
	if j.local != nil { // the owner's own copy is the one to compare with
		if i := slices.IndexFunc(j.claims, func(c claim) bool { return c.Origin == j.local.owner }); i >= 0 {
			e.renderOnce(made, &j.claims[i])
		}
	}
	for i := range j.claims {
		c := &j.claims[i]
		if r := e.renderOnce(made, c); r != nil && r.err != nil {
			p := e.problemOf(r.err, j.key)
			w.problem, c.Standing, c.Reason = &p, syncrules.Held, p.text
		} else if r != nil {
			c.Desired = r.object
		}
		w.Claims = append(w.Claims, c.Claim)
	}
	return w, nil
}

type rendered struct {
	object *unstructured.Unstructured
	err    error
}

// renderOnce renders what a claim offers, once for all that have the same content: then the copies are the same
// but for the owner's mark, and that of the first (or of the owner) is the only one that may be written.
func (e *Engine) renderOnce(made map[uint64]*rendered, c *claim) *rendered {
	if c.Standing != syncrules.Offered {
		return nil
	}
	r := made[c.content]
	if r == nil {
		r = &rendered{}
		r.object, r.err = e.render(c)
		made[c.content] = r
	}
	return r
}

func (e *Engine) render(c *claim) (*unstructured.Unstructured, error) {
	source, err := c.object.object()
	if err != nil {
		return nil, err
	}
	desired, err := syncrules.Render(c.rules, source, syncrules.Input{Owner: c.Origin})
	if err != nil {
		return nil, err
	}
	return desired, e.consent.Refuse(desired)
}
