// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
)

// tally is what a rule's results add up to.
type tally struct {
	matched, synced, failed, held, tried, conflicts int32
	reasons                                         map[string]int32
	sources                                         map[string]*sourceTally
	texts                                           []keyText // newest first

	slow      string // a copy that changes too often, until slowUntil
	slowUntil time.Time
}

type sourceTally struct {
	matched, synced, failed int32
	lag                     time.Duration
}

type keyText struct {
	key          Key
	reason, text string
}

// count adds or, with -1, takes away a result. mu is held.
func (e *Engine) count(k Key, res *result, n int32) {
	for _, name := range res.rules {
		if r := e.rules[name]; r != nil {
			r.tally.add(k, name, res, n)
			r.sender.dirty = true
		}
	}
	poked(e.reportWake)
}

func (t *tally) source(id string) *sourceTally {
	if t.sources == nil {
		t.sources = map[string]*sourceTally{}
	}
	s := t.sources[id]
	if s == nil {
		s = &sourceTally{}
		t.sources[id] = s
	}
	return s
}

func (t *tally) add(k Key, rule string, res *result, n int32) {
	for _, o := range res.offers {
		if !slices.Contains(o.rules, rule) {
			continue
		}
		t.matched += n
		s := t.source(o.origin)
		s.matched += n
		switch {
		case o.surplus:
		case res.state == synced && (o.origin == res.owner || res.owner == ""):
			s.synced += n
		case res.state == failed:
			s.failed += n
		}
	}
	switch res.state {
	case synced:
		t.synced += n
	case failed:
		t.failed += n
	case held:
		t.held += n
	case tried:
		t.tried += n
	case idle:
	}
	if res.conflict {
		t.conflicts += n
	}
	if res.reason != "" {
		if t.reasons == nil {
			t.reasons = map[string]int32{}
		}
		if t.reasons[res.reason] += n; t.reasons[res.reason] == 0 {
			delete(t.reasons, res.reason)
		}
	}
	if res.text == "" {
		return
	}
	t.texts = slices.DeleteFunc(t.texts, func(x keyText) bool { return x.key == k })
	if n > 0 {
		t.texts = slices.Insert(t.texts, 0, keyText{k, res.reason, res.text})
		t.texts = t.texts[:min(len(t.texts), maxErrors)]
	}
}

// tellAgain tells of a result that stays, where there is room for its text now. mu is held.
func (e *Engine) tellAgain(k Key, res *result) {
	for _, name := range res.rules {
		if r := e.rules[name]; r != nil && r.tally.tell(k, res) {
			r.sender.dirty = true
			poked(e.reportWake)
		}
	}
}

// tell keeps the text of a result behind the others if there is room, or if none of its reason is among them.
func (t *tally) tell(k Key, res *result) (news bool) {
	if res.text == "" || slices.ContainsFunc(t.texts, func(x keyText) bool { return x.key == k }) {
		return false
	}
	if len(t.texts) == maxErrors {
		if slices.ContainsFunc(t.texts, func(x keyText) bool { return x.reason == res.reason }) {
			return false
		}
		seen := map[string]bool{}
		again := slices.IndexFunc(t.texts, func(x keyText) bool {
			was := seen[x.reason]
			seen[x.reason] = true
			return was
		})
		if again < 0 {
			return false
		}
		t.texts = slices.Delete(t.texts, again, again+1)
	}
	t.texts = append(t.texts, keyText{k, res.reason, res.text})
	return true
}

// tallyLag notes how long a change of a source took, once: a copy that is restored later, or made anew or of another
// owner's, is another matter. Of a source with copies in several places the first tells. mu is held.
func (e *Engine) tallyLag(j *job, out outcome) {
	done := out.wrote && out.decision.Desired != nil
	if !done && (out.decision.Action != syncrules.None || out.problem != nil) {
		return
	}
	e.haveArrived(j)
	if !done {
		return
	}
	for i := range j.claims {
		c := &j.claims[i]
		if c.Origin != out.decision.Owner || c.arrived.IsZero() {
			continue
		}
		for _, name := range c.names {
			if r := e.rules[name]; r != nil {
				lag := time.Since(c.arrived)
				r.tally.source(c.Origin).lag = lag
				e.metrics.lag(name, lag)
			}
		}
	}
}

// haveArrived takes what a decision was made of as no news any more. Both claims and holders are in the order of their
// peers. mu is held.
func (e *Engine) haveArrived(j *job) {
	i := 0
	for _, h := range e.holders[j.key.GroupKind][j.key.NamespacedName()] {
		for i < len(j.claims) && j.claims[i].Origin < h.v.peer {
			i++
		}
		if i == len(j.claims) {
			return
		}
		if c := &j.claims[i]; c.Origin == h.v.peer && !c.arrived.IsZero() {
			if ent := h.v.entries[h.from]; ent.arrived.Equal(c.arrived) {
				ent.arrived = time.Time{}
			}
		}
	}
}

// kindDirty makes all rules of a kind be reported. mu is held.
func (e *Engine) kindDirty(gk schema.GroupKind) {
	if k := e.kinds[gk]; k != nil {
		for _, r := range k.readers {
			r.sender.dirty = true
		}
		for _, r := range k.writers {
			r.sender.dirty = true
		}
		poked(e.reportWake)
	}
}
