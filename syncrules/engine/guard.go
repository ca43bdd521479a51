// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// guardWindow is for how long a copy that was deleted counts, with Options.GuardLive: live events come one by one,
// and are acted on at once.
const guardWindow = time.Minute

// lost counts, with Options.GuardLive, the copies of an entry that was deleted before our eyes like those of one
// that a list lacks. mu is held.
func (e *Engine) lost(v *view, from types.NamespacedName, ent *entry) {
	for _, name := range ent.rules {
		r := e.rules[name]
		if r == nil || r.compiled == nil || !r.judged[v.peer] {
			continue
		}
		x, _ := ent.aimOf(name, v.key(from))
		c := e.copies.At(x.to)
		if c == nil || c.Owner != v.peer || c.Source(x.to) != v.key(from) || !r.mayLack(c) {
			continue
		}
		r.lacks(x.to, c)
		e.guard(r)
	}
}

// lostCopy says that a copy is gone; if it was counted as lacking, it goes on counting, for a while, as lost. So every
// copy counts once, from when its source was gone. mu is held.
func (e *Engine) lostCopy(rule, owner string, k Key) {
	r := e.rules[rule]
	if r == nil {
		return
	}
	_, counted := r.lacking[owner][k]
	switch {
	case counted && e.o.GuardLive:
		r.lost = append(r.lost, loss{time.Now(), owner})
	case counted && r.confirm.begun:
		r.confirm.spent++
	}
	e.lacksNot(r, owner, k)
	e.recount(rule)
}

// confirmation is what a person has said about deletions that lack proof: up to so many of them, once.
type confirmation struct {
	count int  // of the annotation; 0 for none
	used  int  // the count that was used up; the same one allows nothing more until it was taken away
	begun bool // deletions go on that it allowed, of which
	spent int  // are done
}

func confirmationOf(r *v1alpha1.ResourceSyncRule) (c confirmation) {
	if n, err := strconv.ParseInt(r.Annotations[syncrules.AnnotationConfirmDeletions], 10, 32); err == nil && n > 0 {
		c.count, c.used = int(n), int(r.Status.ConfirmedDeletions)
	}
	return c
}

// after is the confirmation of a rule that had another one: what is known here is newer than what its status tells.
func (c confirmation) after(old confirmation) confirmation {
	switch c.count {
	case 0:
		return confirmation{}
	case old.count:
		return old
	}
	c.used = old.used
	return c
}

// allows says whether so many may go, and notes that they do.
func (c *confirmation) allows(absent int) bool {
	if c.count == c.used || c.spent+absent > c.count {
		return false
	}
	c.begun = true
	return true
}

// told is the count that the status tells as used up, from its first deletion on: an agent that is started again in the
// middle asks again.
func (c confirmation) told() int {
	if c.begun {
		return c.count
	}
	return c.used
}

// next is the count to confirm so many with.
func (c confirmation) next(absent int) int {
	if absent == c.used {
		return absent + 1
	}
	return absent
}

// endConfirmation uses a confirmation up when everything that it allowed is done: what goes missing later is another
// fault, or another decision. The status remembers it. mu is held.
func (e *Engine) endConfirmation(r *rule) {
	if r.confirm.begun && len(r.lacking) == 0 {
		r.confirm = confirmation{count: r.confirm.count, used: r.confirm.count}
		r.lost, r.sender.dirty = nil, true
		poked(e.reportWake)
	}
}

// missing is how many of a rule's copies are lacking, those that were lost within the window among them, and how many
// beside them are kept; and how many of the first owner in guardedOf.
type missing struct {
	absent, copies, kept       int
	ofAbsent, ofCopies, ofKept int
}

// loss is that a copy went which counted as lacking.
type loss struct {
	at    time.Time
	owner string
}

// stopped says that the guard has stopped something of the rule.
func (r *rule) stopped() bool { return r.guarded || len(r.guardedOf) > 0 }

// stoppedOf says that it stops what the rule has of one cluster.
func (r *rule) stoppedOf(owner string) bool { return r.guarded || slices.Contains(r.guardedOf, owner) }

// saidStopped says that the guard had stopped the rule when its status was written last: by an agent that ran before.
func saidStopped(r *v1alpha1.ResourceSyncRule) bool {
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == ReasonDeletionGuard
}

// forgetLosses forgets those of before the window. What is stopped goes on counting.
func (r *rule) forgetLosses(now time.Time) {
	if r.guarded || len(r.lost) == 0 || now.Sub(r.lost[0].at) <= guardWindow {
		return
	}
	r.lost = slices.DeleteFunc(r.lost, func(l loss) bool {
		return now.Sub(l.at) > guardWindow && !slices.Contains(r.guardedOf, l.owner)
	})
}

// countMissing counts what is lacking of a rule, and says whether that is too much of all; and finds the owners of which
// too much is by itself: a fault is one cluster's, and in a large group none has most of the copies. What is kept counts
// as lacking, or who keeps one of four copies would lose three. mu is held.
func (e *Engine) countMissing(r *rule) (m missing, all bool, of []string) {
	for _, gk := range r.kinds {
		m.copies += e.copies.Decided(gk, r.name)
	}
	if len(r.lacking) == 0 {
		return m, false, nil
	}
	r.forgetLosses(time.Now())
	m.absent, m.copies = len(r.lost), m.copies+len(r.lost)
	for owner, at := range r.kept {
		if e.mayAsk(r, owner) {
			m.kept += len(at)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(r.lacking)) {
		absent, copies := len(r.lacking[owner]), 0
		for _, gk := range r.kinds {
			copies += e.copies.Share(gk, r.name, owner)
		}
		m.absent += absent
		for _, l := range r.lost {
			if l.owner == owner {
				absent, copies = absent+1, copies+1
			}
		}
		kept := len(r.kept[owner])
		if !syncrules.Guarded(absent+kept, copies+kept) {
			continue
		}
		if of = append(of, owner); len(of) == 1 {
			m.ofAbsent, m.ofCopies, m.ofKept = absent, copies, kept
		}
	}
	return m, syncrules.Guarded(m.absent+m.kept, m.copies+m.kept), of
}

// mayAsk says that the rule asks for what a cluster has, or may do so.
func (e *Engine) mayAsk(r *rule, clusterID string) bool {
	p := e.peers[clusterID]
	if p == nil || p.Left {
		return false
	}
	rel, _, _ := e.relate(r, p)
	return rel != syncrules.Excludes
}

// cleared says that nothing of the rule is missing, and that this is known of all copies and of all who may have them.
func (e *Engine) cleared(r *rule) bool {
	if r.stopped() || len(r.lacking) > 0 || !e.localsComplete(r) {
		return false
	}
	for _, w := range e.locals {
		if !w.complete && slices.Contains(r.kinds, w.scope.GVK.GroupKind()) {
			return false
		}
	}
	for _, gk := range r.kinds {
		for owner := range e.copies.Owners(gk, r.name) {
			if !r.judged[owner] && (e.peers[owner] == nil || e.mayAsk(r, owner)) {
				return false
			}
		}
	}
	return true
}

// guard counts what is lacking without proof, and stops or resumes the rule. mu is held.
func (e *Engine) guard(r *rule) {
	m, all, of := e.countMissing(r)
	if m != r.missing {
		r.missing = m
		r.sender.dirty = r.sender.dirty || r.stopped() // its condition tells of them
	}
	begun := r.confirm.begun
	deletes := r.compiled.Deletion() == v1alpha1.DeletionDelete || r.suspect && r.compiled.RuleDeletion() == v1alpha1.DeletionDelete
	if !deletes || !all && of == nil || r.confirm.allows(m.absent) {
		all, of = false, nil
	}
	whole, before := r.guarded != all, r.guardedOf
	r.guarded, r.guardedOf = all, of
	if r.confirm.begun != begun {
		r.sender.dirty = true
		poked(e.reportWake)
	}
	e.endConfirmation(r)
	if r.suspect && e.cleared(r) {
		r.suspect = false
		if e.draining {
			e.poke()
		}
	}
	if !whole && slices.Equal(before, of) {
		return
	}
	e.log.Warn("deletion guard", "rule", r.name, "stopped", r.guarded, "absent", m.absent, "copies", m.copies, "clusters", r.guardedOf)
	if whole {
		e.staleRule(r)
	}
	for _, owner := range slices.Concat(before, of) {
		if slices.Contains(before, owner) != slices.Contains(of, owner) {
			e.stalePeers[owner] = true
		}
	}
	e.poke()
}

// recount resumes a rule that the guard has stopped, when what was lacking came back or is not there any more, and
// forgets that it had been. mu is held.
func (e *Engine) recount(rule string) {
	if r := e.rules[rule]; r != nil && (r.stopped() || r.suspect) && r.compiled != nil {
		e.guard(r)
	}
}
