// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/drift"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// A rule that only looks has no part in what is decided about a copy, but that it holds what it made. What it would do is
// decided a second time, as if it wrote, and only told.

// observes is why the rule only looks, "" normally.
func (r *rule) observes() string {
	if r.compiled == nil {
		return ""
	}
	return r.compiled.Manner().ObservesText(r.name)
}

// toldLocked are the rules that are told what becomes of a job.
func (e *Engine) toldLocked(j *job) (names []string) {
	add := func(more []string) {
		for _, name := range more {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for i := range j.claims {
		if c := &j.claims[i]; len(c.rules) > 0 {
			add(c.names)
		}
	}
	for _, s := range j.surplus {
		add(s.rules)
	}
	if j.local != nil && len(names) == 0 {
		names = j.local.Rules
	}
	if j.kind == nil || !j.kind.observed {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		r := e.rules.byName[name]
		return (r != nil && r.observes() != "") != j.observed
	})
}

// gatherObservedLocked is a job as if the rules that only look wrote; nil where they have no say.
func (e *Engine) gatherObservedLocked(j *job) *job {
	if j == nil || j.kind == nil || !j.kind.observed {
		return nil
	}
	look := &job{
		key: j.key, kind: j.kind, local: j.local, ownerGone: j.ownerGone, cluster: j.cluster, namespaced: j.namespaced, observed: true,
	}
	e.gatherClaimsLocked(look)
	if len(e.toldLocked(look)) == 0 {
		return nil
	}
	e.gatherVerdictLocked(look)
	if j.local == nil && !slices.ContainsFunc(j.claims, func(c claim) bool { return c.Standing == syncrules.Offered }) {
		j.foreign = false // what is in the place is of interest for the look alone
	}
	return look
}

// observe decides, and does nothing; mu is not held.
func (e *Engine) observe(ctx context.Context, j *job) outcome {
	if j.judged && j.local == nil {
		return outcome{decision: j.verdict, again: j.recheck}
	}
	w, err := e.weigh(j)
	if err != nil {
		return outcome{problem: e.errors().Problem(err, j.key, j.secret())}
	}
	out := outcome{decision: syncrules.Plan(w.Facts), problem: w.problem}
	switch {
	case out.decision.Action == syncrules.Create && j.absent:
		out.again = j.recheck
	case out.decision.Action == syncrules.Create:
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if err := e.readExisting(ctx, j, w, &out); err != nil && !errors.Is(err, errRace) {
			out.problem = e.errors().Problem(err, j.key, j.secret())
		}
	}
	out.drift = drift.Of(out.decision, w.Local)
	return out
}

// recordObservedLocked takes in what was seen; look is nil where nothing was to be.
func (e *Engine) recordObservedLocked(key Key, look *job, out outcome) {
	if look == nil {
		e.forgetLocked(e.outcomes.observed, key)
		return
	}
	r := e.resultOfLocked(look, out)
	switch {
	case r.Reason == "" && out.drift != drift.None:
		r.State, r.Reason, r.Text = tally.Drifted, string(out.drift), problem.OneLine(key.String()+" "+out.drift.Text(out.decision))
	case r.State == tally.Tried && out.decision.Action == syncrules.Wait:
	case r.State == tally.Tried && r.Reason == "":
		r.State = tally.Synced // nothing but marks would be written
	case r.State == tally.Tried:
		r.State = tally.Idle
	}
	e.replaceLocked(e.outcomes.observed, key, r)
	switch {
	case r.State == tally.Failed && !out.problem.Final():
		e.queue.EnqueueAfter(key, out.problem.MaxBackoff())
	case out.again > 0:
		e.queue.EnqueueAfter(key, out.again)
	}
}
