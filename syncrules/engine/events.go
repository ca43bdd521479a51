// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// Reasons of events.
const (
	EventReconciled       = "ObjectReconciled"
	EventNotReconciled    = "ObjectNotReconciled"
	EventMissingNamespace = "ObjectNotReconciledMissingNamespace"
	EventRateLimited      = "ObjectReconcileRateLimited"
	EventOrphaned         = "CopiesOrphaned"
)

// eventEvery is how often one rule has an event of one reason at most. Each is a write.
const eventEvery = 30 * time.Second

// Event is what happened to copies of a rule, summed up: there is no event for each object.
type Event struct {
	Reason, Message string
	Warning         bool
}

// happening is what events are summed up by.
type happening struct{ rule, reason string }

// tallied is how often it happened since the last event. Engine.mu guards it.
type tallied struct {
	count       int
	example     string
	since, sent time.Time
}

type ruleEvent struct {
	rule string
	Event
}

// happened counts what became of a key, for the events of its rules. What merely stayed as it was is none. mu is
// held, and the result is not recorded yet.
func (e *Engine) happened(j *job, out outcome, r *result) {
	old := e.results[j.key]
	news := old == nil || old.reason != r.reason
	switch {
	case out.wrote && out.decision.Action == syncrules.MarkOrphan:
		e.countEvent(j.local.rules, EventOrphaned, j.key.String())
	case out.wrote:
		e.countEvent(r.rules, EventReconciled, j.key.String())
	case out.slowed:
		e.countEvent(r.rules, EventRateLimited, j.key.String())
	}
	switch {
	case r.reason == "" || !news:
	case r.reason == problem.ReasonNamespaceMissing || r.reason == problem.ReasonNamespaceTerminating || r.reason == problem.ReasonNamespaceLimit:
		e.countEvent(r.rules, EventMissingNamespace, r.text)
	default:
		e.countEvent(r.rules, EventNotReconciled, r.text)
	}
}

func (e *Engine) countEvent(rules []string, reason, example string) {
	for _, rule := range rules {
		h := happening{rule, reason}
		t := e.happenings[h]
		if t == nil {
			t = &tallied{}
			e.happenings[h] = t
		}
		if t.count++; t.count == 1 {
			t.example, t.since = example, time.Now()
		}
	}
	poked(e.reportWake)
}

// dueEvents are the events to send now, in order; next is when to look again, 0 for when something happens.
func (e *Engine) dueEvents(now time.Time) (due []ruleEvent, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for h, t := range e.happenings {
		if t.count == 0 {
			if e.rules[h.rule] == nil && now.Sub(t.sent) >= eventEvery {
				delete(e.happenings, h)
			}
			continue
		}
		at := t.since.Add(reportCalm)
		if again := t.sent.Add(eventEvery); again.After(at) {
			at = again
		}
		if wait := at.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		due = append(due, ruleEvent{h.rule, eventOf(h.reason, t)})
		t.count, t.sent = 0, now
	}
	slices.SortFunc(due, func(a, b ruleEvent) int { return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.Reason, b.Reason)) })
	return due, next
}

func eventOf(reason string, t *tallied) Event {
	out := Event{Reason: reason, Warning: reason != EventReconciled}
	what := map[string]string{
		EventReconciled: "brought up to date", EventNotReconciled: "not as they should be", EventMissingNamespace: "waiting for their namespace",
		EventRateLimited: "slowed down because they change too often", EventOrphaned: "not maintained any more; they stay, marked as orphaned",
	}[reason]
	if t.count == 1 {
		out.Message = "1 object " + what + ": " + t.example
	} else {
		out.Message = fmt.Sprintf("%d objects %s, such as %s", t.count, what, t.example)
	}
	return out
}
