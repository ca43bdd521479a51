// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// guardWindow is for how long a copy that was deleted counts, with Options.GuardLive: live events come one by one,
// and are acted on at once.
const guardWindow = time.Minute

// lost counts, with Options.GuardLive, the copies of an entry that was deleted before our eyes like those of one
// that a list lacks. mu is held.
func (e *Engine) lost(v *view, from place, ent *entry) {
	for _, name := range ent.rules {
		r := e.rules[name]
		if r == nil || r.compiled == nil || !r.judged[v.peer] {
			continue
		}
		x, _ := ent.aimOf(name, v.key(from))
		c := e.copyAt(x.to)
		if c == nil || c.owner != v.peer || !c.ruled(name) || !c.selectedBy(r) {
			continue
		}
		r.lacks(v.peer, from)
		e.guard(r)
	}
}

// lostCopy says that a copy is gone; if it was counted as lacking, it goes on counting, for a while, as lost. So every
// copy counts once, from when its source was gone. mu is held.
func (e *Engine) lostCopy(rule, owner string, from place) {
	r := e.rules[rule]
	if r == nil {
		return
	}
	if _, counted := r.lacking[owner][from]; counted && e.o.GuardLive {
		r.lost = append(r.lost, time.Now())
	}
	e.lacksNot(rule, owner, from)
}

// recent is how many copies of the rule were lost within the window; while the rule is stopped they go on counting.
func (r *rule) recent(now time.Time) int {
	for !r.guarded && len(r.lost) > 0 && now.Sub(r.lost[0]) > guardWindow {
		r.lost = r.lost[1:]
	}
	return len(r.lost)
}

// guard counts what is lacking without proof, and stops or resumes the rule. mu is held.
func (e *Engine) guard(r *rule) {
	absent, copies := 0, 0
	for _, of := range r.lacking {
		absent += len(of)
	}
	for _, gk := range r.kinds {
		if set := e.copies[gk]; set != nil {
			copies += set.ruled[r.name]
		}
	}
	if absent > 0 {
		lost := r.recent(time.Now())
		absent, copies = absent+lost, copies+lost
	}
	if r.absent != absent || r.copies != copies {
		r.absent, r.copies = absent, copies
		r.sender.dirty = r.sender.dirty || r.guarded // its condition tells of them
	}
	was := r.guarded
	deletes := r.compiled.Deletion() == v1alpha1.DeletionDelete || r.suspect && r.compiled.RuleDeletion() == v1alpha1.DeletionDelete
	r.guarded = deletes &&
		syncrules.Guarded(r.absent, r.copies) && r.absent > r.confirm
	if was != r.guarded {
		e.log.Warn("deletion guard", "rule", r.name, "stopped", r.guarded, "absent", r.absent, "copies", r.copies)
		e.staleRule(r)
		e.poke()
	}
}
