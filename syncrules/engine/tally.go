// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
		t.sources, t.reasons = map[string]*sourceTally{}, map[string]int32{}
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

// tallyLag notes how long a change took. mu is held.
func (e *Engine) tallyLag(j *job, out outcome) {
	if !out.wrote || out.decision.Desired == nil {
		return
	}
	for i := range j.claims {
		c := &j.claims[i]
		if c.Origin != out.decision.Owner {
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
