// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Judging draws the conclusion from complete lists that concerns many copies at once: whether the guard must stop
// the rule. It is about one rule and one owner at a time, whenever what is known of that owner turns complete; and
// about all owners when the rule changed.

// judgeKindLocked judges all rules of a kind.
func (e *Engine) judgeKindLocked(gk schema.GroupKind) {
	k := e.rules.kinds[gk]
	if k == nil {
		return
	}
	for _, r := range k.writers {
		if r.compiled == nil || !e.localsCompleteLocked(r) {
			continue
		}
		for _, id := range e.clusters.ids {
			e.judgeOwnerLocked(r, id)
		}
		e.guardRuleLocked(r)
	}
}

// judgePeerLocked judges what all rules have of one peer.
func (e *Engine) judgePeerLocked(id string) {
	for _, k := range e.rules.kinds {
		for _, r := range k.readers {
			e.judgeLocked(r, id)
		}
	}
}

// judgeLocked judges what one rule has of one peer.
func (e *Engine) judgeLocked(r *rule, owner string) {
	if r.compiled == nil || !e.localsCompleteLocked(r) {
		return
	}
	e.judgeOwnerLocked(r, owner)
	e.guardRuleLocked(r)
}

// turnedLiveLocked draws the conclusions of a complete list, before anything is decided by it.
func (e *Engine) turnedLiveLocked(v *view) {
	gk := v.scope.GVK.GroupKind()
	for name := range v.judges {
		if r := e.rules.byName[name]; r != nil && r.kind() == gk {
			e.judgeLocked(r, v.peer)
		}
	}
	for _, to := range e.writtenFromLocked(v.judges) {
		for at, c := range e.local.copies.Of(to, v.peer) {
			k := place.At(to, at)
			// The marks of a copy that moved may have been changed here, and lead anywhere.
			if from := c.Source(k); (c.MovedFrom != nil || from.GroupKind == gk && v.scope.Covers(from.Namespace)) && !e.settledLocked(k, c) {
				e.queue.EnqueueLocked(k)
			}
		}
	}
}

// localsCompleteLocked says that all local scopes which the rule may have copies in are complete.
func (e *Engine) localsCompleteLocked(r *rule) bool {
	for _, s := range r.targets {
		complete := false
		for _, ns := range [...]string{"", s.Namespace} {
			w := e.local.watches[place.Copies(s.GVK, ns)]
			complete = complete || w != nil && w.complete
		}
		if !complete {
			return false
		}
	}
	return true
}

// viewsLiveLocked says that everything a peer has for the rule is known, under its present selection.
func (e *Engine) viewsLiveLocked(r *rule, peer string) bool {
	if live, _ := e.namespaces.KnownLocked(); !live && r.compiled.FanOut() != nil {
		return false
	}
	for _, s := range r.scopes {
		if v := e.views.byPeer[peer][s]; v == nil || !v.live || !v.judgedBy(r) {
			return false
		}
	}
	return true
}

// judgedBy says that the entries are those that the rule selects, as it is now, beside what other rules do.
func (v *view) judgedBy(r *rule) bool {
	selection, ok := v.judges[r.name]
	return ok && selection == r.selection
}

// judgeOwnerLocked counts what is lacking of an owner as soon as all of its objects are known, and lets that be decided on.
// While some are not known, what was counted last holds; copies that the rule lets go of are not counted any more then.
func (e *Engine) judgeOwnerLocked(r *rule, owner string) {
	if r.guard.Judged(owner) || e.viewsLiveLocked(r, owner) {
		e.countLackingLocked(r, owner, r.guard.Judge(owner))
	}
}

// doubtLocked ends what was concluded from a view that is not live any more. What went missing meanwhile counts together, in
// all views of a rule, when all of them are live again: one by one they would be too few for the guard.
func (e *Engine) doubtLocked(v *view) {
	for name := range v.judges {
		if r := e.rules.byName[name]; r != nil {
			r.guard.Doubt(v.peer)
		}
	}
}

// countLackingLocked finds the copies of an owner that are lacking without proof; the first time all of them that are not
// there have waited for that.
func (e *Engine) countLackingLocked(r *rule, owner string, first bool) {
	r.guard.Recount(owner)
	for _, gk := range r.kinds {
		for at, c := range e.local.copies.Of(gk, owner) {
			if !c.MadeBy(r.name) {
				continue
			}
			k := place.At(gk, at)
			f, _ := e.findLocked(r, owner, c.Source(k), k)
			if first && f != syncrules.FoundPresent && c.DecidedBy(r.name) {
				e.queue.EnqueueLocked(k)
			}
			if f == syncrules.FoundLacking && r.mayLack(c) {
				r.guard.Lack(c.Owner, k, c.Disabled)
			}
		}
	}
}

// countCopyLocked counts a copy that is there, perhaps in the stead of another; what was counted last of it holds while its
// source is not known.
func (e *Engine) countCopyLocked(k Key, old, c *copies.Copy) {
	names := c.Rules
	if old != nil {
		names = slices.Concat(names, old.Rules)
	}
	for _, name := range names {
		r := e.rules.byName[name]
		if r == nil || r.compiled == nil {
			continue
		}
		was := old != nil && r.guard.Lacks(old.Owner, k)
		same := was && old.Owner == c.Owner && old.Source(k) == c.Source(k)
		// a new one, the answer to our own write perhaps, would only thin out those that lack
		lacks := (same || r.guard.Judged(c.Owner) && (old != nil || r.guard.Stopped())) && r.mayLack(c) && slices.Contains(r.kinds, k.GroupKind)
		if lacks {
			f, _ := e.findLocked(r, c.Owner, c.Source(k), k)
			lacks = f == syncrules.FoundLacking || same && (f == syncrules.FoundUnknown || f == syncrules.FoundAwaited)
		}
		if was && (!lacks || old.Owner != c.Owner) {
			e.clearLackLocked(r, old.Owner, k)
		}
		if lacks {
			r.guard.Lack(c.Owner, k, c.Disabled)
		}
		if was || lacks || r.guard.Stopped() {
			e.guardRuleLocked(r)
		}
	}
}

// mayLack says that the rule had made the copy, as it is now or as the guard has it.
func (r *rule) mayLack(c *copies.Copy) bool {
	return c.MadeBy(r.name) && (c.SelectedBy(r.name, r.selection) || r.guard.Suspect())
}

// clearLackLocked says that the source of the copy at k is there, or the copy is not.
func (e *Engine) clearLackLocked(r *rule, owner string, k Key) {
	if r.guard.Clear(owner, k) {
		e.reportSoonLocked(r)
	}
}

// foundLocked says that a source is there, whatever copies it has. Of those in many namespaces some may lack nevertheless.
func (e *Engine) foundLocked(r *rule, owner string, from Key) {
	spreads := r.compiled != nil && r.compiled.FanOut() != nil && r.guard.Judged(owner)
	if !r.guard.Any() && !spreads {
		return
	}
	lacks := false
	found := func(k Key, c *copies.Copy) {
		if r.compiled == nil || r.compiled.FanOut() == nil || e.presentLocked(r, owner, from, k) {
			e.clearLackLocked(r, owner, k)
		} else if spreads && r.mayLack(c) && !r.guard.Lacks(owner, k) {
			if f, _ := e.findLocked(r, owner, from, k); f == syncrules.FoundLacking { // its source is there, and its namespace not selected
				r.guard.Lack(owner, k, c.Disabled)
				lacks = true
			}
		}
	}
	for _, gk := range r.kinds {
		for at := range e.local.copies.MovedFrom(gk, owner, from) {
			k := place.At(gk, at)
			found(k, e.local.copies.At(k))
		}
	}
	if c := e.local.copies.At(from); c != nil && c.MovedFrom == nil {
		found(from, c)
	}
	if lacks {
		e.guardRuleLocked(r)
	}
}

// presentLocked says that the source of a copy that is counted is there, and that its copy belongs where it is.
func (e *Engine) presentLocked(r *rule, owner string, from, k Key) bool {
	if !r.guard.Lacks(owner, k) {
		return false
	}
	f, _ := e.findLocked(r, owner, from, k)
	return f == syncrules.FoundPresent
}
