// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/guard"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// lostLocked counts, with Options.GuardLive, the copies of an entry that was deleted before our eyes like those of one
// that a list lacks.
func (e *Engine) lostLocked(v *view, from types.NamespacedName, ent *entry) {
	for _, name := range ent.rules {
		r := e.rules.byName[name]
		if r == nil || r.compiled == nil || !r.guard.Judged(v.peer) {
			continue
		}
		for to := range e.placesLocked(v, from, ent) {
			c := e.local.copies.At(to)
			if x, _ := ent.destinationOf(name, v.key(from)); c != nil && c.Owner == v.peer && x.Reaches(to) && c.Source(to) == v.key(from) && r.mayLack(c) {
				r.guard.Lack(c.Owner, to, c.Disabled)
			}
		}
		e.guardRuleLocked(r)
	}
}

// lostCopyLocked says that a copy is gone; if it was counted as lacking, it goes on counting, for a while, as lost. So every
// copy counts once, from when its source was gone.
func (e *Engine) lostCopyLocked(rule, owner string, k Key) {
	r := e.rules.byName[rule]
	if r == nil {
		return
	}
	r.guard.Gone(owner, k, e.o.GuardLive, time.Now())
	e.clearLackLocked(r, owner, k)
	e.recountLocked(rule)
}

// mayAskLocked says that the rule asks for what a cluster has, or may do so.
func (e *Engine) mayAskLocked(r *rule, clusterID string) bool {
	p := e.clusters.peers[clusterID]
	if p == nil || p.Left {
		return false
	}
	rel, _, _ := e.relateLocked(r, p)
	return rel != syncrules.Excludes
}

// clearedLocked says that nothing of the rule is missing, and that this is known of all copies and of all who may have them.
func (e *Engine) clearedLocked(r *rule) bool {
	if !r.guard.Quiet() || !e.localsCompleteLocked(r) {
		return false
	}
	for _, w := range e.local.watches {
		if !w.complete && slices.Contains(r.kinds, w.scope.GVK.GroupKind()) {
			return false
		}
	}
	for _, gk := range r.kinds {
		for owner := range e.local.copies.Owners(gk, r.name) {
			if !r.guard.Judged(owner) && (e.clusters.peers[owner] == nil || e.mayAskLocked(r, owner)) {
				return false
			}
		}
	}
	return true
}

// guardRuleLocked counts what is lacking without proof, and stops the rule or lets it go on.
func (e *Engine) guardRuleLocked(r *rule) {
	counts := guard.Counts{
		Of: func(owner string) int {
			return place.Sum(r.kinds, func(gk schema.GroupKind) int { return e.local.copies.Share(gk, r.name, owner) })
		},
		Asks:     func(owner string) bool { return e.mayAskLocked(r, owner) },
		All:      place.Sum(r.kinds, func(gk schema.GroupKind) int { return e.local.copies.Decided(gk, r.name) }),
		Deletion: r.compiled.Deletion() == v1alpha1.DeletionDelete,
		Edit:     r.compiled.RuleDeletion() == v1alpha1.DeletionDelete,
	}
	change := r.guard.Decide(counts, time.Now())
	if change.Report {
		e.reportSoonLocked(r)
	}
	if r.guard.Suspect() && e.clearedLocked(r) {
		r.guard.Trust()
		if e.local.draining {
			e.superviseSoon()
		}
	}
	if !change.Rule && len(change.Owners) == 0 {
		return
	}
	e.o.Log.Warn("deletion guard", "rule", r.name, "stopped", r.guard.StoppedAll(), "clusters", r.guard.StoppedOwners(),
		"changed", change.Owners, "absent", change.Absent, "copies", change.Copies)
	if change.Rule {
		e.staleRuleLocked(r)
	}
	for _, owner := range change.Owners {
		e.supervisor.peers[owner] = true
	}
	e.superviseSoon()
}

// reportSoonLocked makes a rule be reported.
func (e *Engine) reportSoonLocked(r *rule) {
	r.sender.Dirty = true
	wake.Up(e.reporter.wake)
}

// recountLocked resumes a rule that the guard has stopped, when what was lacking came back or is not there any more, and
// forgets that it had been.
func (e *Engine) recountLocked(rule string) {
	if r := e.rules.byName[rule]; r != nil && (r.guard.Stopped() || r.guard.Suspect()) && r.compiled != nil {
		e.guardRuleLocked(r)
	}
}
