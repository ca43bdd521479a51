// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Reasons of events.
const (
	EventReconciled       = "ObjectReconciled"
	EventNotReconciled    = "ObjectNotReconciled"
	EventMissingNamespace = "ObjectNotReconciledMissingNamespace"
	EventRateLimited      = "ObjectReconcileRateLimited"
	EventOrphaned         = "CopiesOrphaned"
)

const (
	// EventInterval is how often one rule has an event of one reason at most. Each is a write.
	EventInterval = 30 * time.Second
	// eventCalm is how long an event waits for others like it.
	eventCalm = 500 * time.Millisecond
)

// Event is what happened to copies of a rule, summed up: there is no event for each object.
type Event struct {
	Reason, Message string
	Warning         bool
}

// RuleEvent is an Event of a rule, by its name.
type RuleEvent struct {
	Rule string
	Event
}

// Events sum up what happens to the copies of rules.
type Events struct {
	counts map[eventKind]*eventCount
}

type eventKind struct{ rule, reason string }

// eventCount is how often it happened since the last event.
type eventCount struct {
	count       int
	example     string
	since, sent time.Time
}

// Add counts what happened to one copy, for each of its rules. Of several the first example is told.
func (e *Events) Add(rules []string, reason, example string, now time.Time) {
	if e.counts == nil {
		e.counts = map[eventKind]*eventCount{}
	}
	for _, rule := range rules {
		kind := eventKind{rule, reason}
		c := e.counts[kind]
		if c == nil {
			c = &eventCount{}
			e.counts[kind] = c
		}
		if c.count++; c.count == 1 {
			c.example, c.since = example, now
		}
	}
}

// Due are the events to send now, in order, which are counted anew from then on; next is when to look again, 0 for when
// something happens. What is kept of rules that do not exist any more is forgotten in time.
func (e *Events) Due(now time.Time, exists func(rule string) bool) (due []RuleEvent, next time.Duration) {
	for kind, c := range e.counts {
		if c.count == 0 {
			if !exists(kind.rule) && now.Sub(c.sent) >= EventInterval {
				delete(e.counts, kind)
			}
			continue
		}
		at := c.since.Add(eventCalm)
		if again := c.sent.Add(EventInterval); again.After(at) {
			at = again
		}
		if wait := at.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		due = append(due, RuleEvent{kind.rule, eventOf(kind.reason, c)})
		c.count, c.sent = 0, now
	}
	slices.SortFunc(due, func(a, b RuleEvent) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason))
	})
	return due, next
}

func eventOf(reason string, c *eventCount) Event {
	out := Event{Reason: reason, Warning: reason != EventReconciled}
	what := map[string]string{
		EventReconciled: "brought up to date", EventNotReconciled: "not as they should be", EventMissingNamespace: "waiting for their namespace",
		EventRateLimited: "slowed down because they change too often", EventOrphaned: "not maintained any more; they stay, marked as orphaned",
	}[reason]
	if c.count == 1 {
		out.Message = "1 object " + what + ": " + c.example
	} else {
		out.Message = fmt.Sprintf("%d objects %s, such as %s", c.count, what, c.example)
	}
	return out
}
