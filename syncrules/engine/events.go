// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// Event is what happened to copies of a rule, summed up.
type Event = tally.Event

// happenedLocked counts what became of a key, for the events of its rules. What merely stayed as it was is none. It comes
// before the result is recorded.
func (e *Engine) happenedLocked(j *job, out outcome, r *tally.Result) {
	old := e.outcomes.results[j.key]
	news := old == nil || old.Reason != r.Reason
	switch {
	case out.wrote && out.decision.Action == syncrules.MarkOrphan:
		e.countEventLocked(j.local.Rules, tally.EventOrphaned, j.key.String())
	case out.wrote:
		e.countEventLocked(r.Rules, tally.EventReconciled, j.key.String())
	case out.slowed:
		e.countEventLocked(r.Rules, tally.EventRateLimited, j.key.String())
	}
	switch {
	case r.Reason == "" || !news:
	case r.Reason == problem.ReasonNamespaceMissing || r.Reason == problem.ReasonNamespaceTerminating || r.Reason == problem.ReasonNamespaceLimit:
		e.countEventLocked(r.Rules, tally.EventMissingNamespace, r.Text)
	default:
		e.countEventLocked(r.Rules, tally.EventNotReconciled, r.Text)
	}
}

func (e *Engine) countEventLocked(rules []string, reason, example string) {
	e.reporter.events.Add(rules, reason, example, time.Now())
	wake.Up(e.reporter.wake)
}

// dueEvents are the events to send now; next is when to look again, 0 for when something happens.
func (e *Engine) dueEvents(now time.Time) (due []tally.RuleEvent, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reporter.events.Due(now, func(rule string) bool { return e.rules.byName[rule] != nil })
}
