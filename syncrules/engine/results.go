// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/lanes"
	"github.com/roster-mesh/roster/syncrules/engine/pace"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// outcomes is what became of the copies that were worked on.
type outcomes struct {
	results, observed map[Key]*tally.Result // of what was done, and of what rules that only look would do

	pacer *pace.Pacer
	lanes *lanes.Lanes
	quota *quota.Quota[Key]
	paths *quota.Paths // of those because of whom copies wait, in the queue or for the quota
}

func newOutcomes(o *Options) outcomes {
	return outcomes{
		results: map[Key]*tally.Result{}, observed: map[Key]*tally.Result{}, pacer: pace.New(), lanes: lanes.New(o.Workers), quota: quota.New[Key](o.Quota, time.Now()),
		paths: quota.NewPaths(o.LocalClusterID, o.Parent),
	}
}

// all are the results of both kinds.
func (o *outcomes) all() iter.Seq2[Key, *tally.Result] {
	return func(yield func(Key, *tally.Result) bool) {
		for _, results := range [...]map[Key]*tally.Result{o.results, o.observed} {
			for k, r := range results {
				if !yield(k, r) {
					return
				}
			}
		}
	}
}

// recordLocked takes in what became of a key.
func (e *Engine) recordLocked(j *job, out outcome) {
	k := j.key
	if !out.began.IsZero() {
		e.outcomes.pacer.Wrote(k, out.content, out.began)
	}
	if out.answer != nil {
		out.answer.Author = j.claimOf(out.answer.Owner).author
		e.believeLocked(k, &out)
	}
	if out.remade {
		e.outcomes.pacer.SetRecreated(k, out.recreated, out.began)
	}
	if c := e.local.copies.At(k); c != nil && out.tooOften && out.decision.Difference == syncrules.Extra {
		c.Tolerated = true // what comes back as fast as that is somebody else's
	}
	r := e.resultOfLocked(j, out)
	e.tallyLagLocked(j, out)
	e.happenedLocked(j, out, r)
	if out.problem != nil && out.problem.Reason == problem.ReasonMissingPermission {
		e.suspectWriteLocked(out.decision, out.problem)
	}
	e.replaceLocked(e.outcomes.results, k, r)
	if out.wrote && e.local.draining && (out.decision.Action == syncrules.Delete || out.decision.Action == syncrules.MarkOrphan) {
		e.superviseSoon()
	}
	if j.foreign && j.local != nil {
		e.conflicts.ClearLocked(k)
	}
	if out.problem != nil && out.problem.Namespace {
		e.namespaces.AwaitLocked(k)
	} else {
		e.namespaces.ThereLocked(k)
	}
	switch {
	case r.State == tally.Failed && out.problem.Final():
	case r.State == tally.Failed && out.problem.Namespace && j.namespaceNews != e.namespaces.NewsLocked():
		e.queue.EnqueueLocked(k) // it may be there by now
	case r.State == tally.Failed:
		outage := out.problem.Reason == problem.ReasonLocalUnreachable
		e.queue.EnqueueAfter(k, e.outcomes.pacer.Failed(k, out.problem.MaxBackoff(), outage, time.Now()))
	case out.waits: // nothing is known of it yet
	default:
		e.outcomes.pacer.Succeeded(k)
		if out.decision.Action == syncrules.Wait {
			e.awaitLocked(k, j.awaits())
			e.queue.EnqueueAfter(k, settleTime)
		} else if out.again > 0 {
			e.queue.EnqueueAfter(k, out.again)
		}
	}
	if out.slowed {
		e.metrics.Slowed.Inc()
		e.slowedLocked(k, r.Rules)
	}
}

// slowedLocked lets the rules say, for a while, that a copy changes too often.
func (e *Engine) slowedLocked(k Key, rules []string) {
	for _, name := range rules {
		r := e.rules.byName[name]
		if r == nil {
			continue
		}
		if t := &r.tally; t.Slow == "" { // the first is told, or the status would change as often as the objects
			t.Slow = problem.OneLine(fmt.Sprintf("%s changes more than %d times a second; its copy follows at that pace", k, pace.Rate))
			r.sender.Dirty = true
		}
		r.tally.SlowUntil = time.Now().Add(slowFor)
	}
	wake.Up(e.reporter.wake)
}

// resultOfLocked sums up an outcome.
func (e *Engine) resultOfLocked(j *job, out outcome) *tally.Result {
	r := &tally.Result{Owner: j.ownerOf(out.decision), Rules: e.toldLocked(j)}
	for i := range j.claims {
		if c := &j.claims[i]; len(c.rules) > 0 {
			r.Offers = append(r.Offers, tally.Offer{Origin: c.Origin, Rules: c.names})
		}
	}
	for _, s := range j.surplus {
		r.Offers = append(r.Offers, tally.Offer{Origin: s.origin, Rules: s.rules, Surplus: true})
	}
	if d := out.decision; (d.Action == syncrules.None || d.Action == syncrules.UpdateStatus) && d.Difference == syncrules.Changed && j.local != nil {
		out.dropped = j.local.Dropped // what is there was accepted
	}
	switch out.decision.Action {
	case syncrules.None:
		if len(r.Offers) > 0 {
			r.State = tally.Synced
		}
	case syncrules.Create, syncrules.Update, syncrules.UpdateStatus:
		r.State = tally.Tried
		if old := e.outcomes.results[j.key]; out.wrote || out.slowed && old != nil && old.State == tally.Synced {
			r.State = tally.Synced // what is slowed down was so a moment ago
		}
	case syncrules.Delete, syncrules.MarkOrphan:
		if !out.wrote {
			r.State = tally.Tried
		}
	case syncrules.Freeze:
		r.State = tally.Held
	case syncrules.Wait:
		r.State = tally.Tried
	case syncrules.Conflict:
	}
	switch {
	case out.problem != nil:
		r.State, r.Reason, r.Text = tally.Failed, out.problem.Reason, out.problem.Text
	case out.decision.Action == syncrules.Conflict || len(out.decision.Rivals) > 0, len(j.surplus) > 0:
		r.Conflict, r.Reason, r.Text = true, problem.ReasonConflict, e.conflictTextLocked(j, out.decision)
	case out.waits:
		r.Reason, r.Text = problem.ReasonSlowed, problem.OneLine(e.outcomes.quota.Text(j.key.String(), j.claimOf(out.decision.Owner).account, e.clusterNameLocked, time.Now()))
	case out.dropped != "":
		r.Reason, r.Text = problem.ReasonSchemaMismatch, problem.OneLine(j.key.String()+": the API server here does not know "+out.dropped+", and left it out")
	}
	return r
}

// ownerOf is the owner of a decision, whose own text may be a part of the copy as it was: see package packed.
func (j *job) ownerOf(d syncrules.Decision) string {
	if id := j.claimOf(d.Owner).Origin; id != "" {
		return id
	}
	return strings.Clone(d.Owner)
}

func (e *Engine) conflictTextLocked(j *job, d syncrules.Decision) string {
	text := j.key.String() + ": "
	if d.Action == syncrules.Conflict {
		text += d.Reason
	} else {
		text += "it is a copy from cluster " + e.clusterNameLocked(d.Owner)
		if local := e.local.copies.At(j.key); local != nil && len(local.Rules) > 0 {
			text += ", made by rule " + strings.Join(local.Rules, ", ")
		}
	}
	if len(d.Rivals) > 0 {
		names := make([]string, len(d.Rivals))
		for i, id := range d.Rivals {
			names[i] = e.clusterNameLocked(id)
		}
		text += "; other content is in cluster " + strings.Join(names, ", ")
	}
	if n := len(j.surplus); n > 0 {
		text += fmt.Sprintf("; %d more would be copied into the same place, such as %s of cluster %s",
			n, j.surplus[0].from, e.clusterNameLocked(j.surplus[0].origin))
	}
	return problem.OneLine(text)
}

// clusterNameLocked is what people call a cluster.
func (e *Engine) clusterNameLocked(id string) string {
	if p := e.clusters.peers[id]; p != nil {
		return p.name()
	}
	return id
}

// replaceLocked puts the result in place of the one before, and counts it for its rules.
func (e *Engine) replaceLocked(results map[Key]*tally.Result, k Key, r *tally.Result) {
	old := results[k]
	if old != nil && old.Same(r) {
		results[k] = r // its texts may be parts of what is there now, see package packed
		e.tellAgainLocked(k, r)
		return
	}
	if old != nil {
		e.countLocked(k, old, -1)
	}
	if r.State == tally.Idle && !r.Conflict && len(r.Offers) == 0 {
		delete(results, k)
		e.kindDirtyLocked(k.GroupKind)
		return
	}
	results[k] = r
	e.countLocked(k, r, 1)
}

// forgetLocked removes the result of a key that nobody asks about any more.
func (e *Engine) forgetLocked(results map[Key]*tally.Result, k Key) {
	if old := results[k]; old != nil {
		e.countLocked(k, old, -1)
		delete(results, k)
	}
}

// countLocked adds or, with -1, takes away a result.
func (e *Engine) countLocked(k Key, res *tally.Result, n int32) {
	for _, name := range res.Rules {
		if r := e.rules.byName[name]; r != nil {
			r.tally.Add(k, name, res, n)
			r.sender.Dirty = true
		}
	}
	wake.Up(e.reporter.wake)
}

// tellAgainLocked tells of a result that stays, where there is room for its text now.
func (e *Engine) tellAgainLocked(k Key, res *tally.Result) {
	for _, name := range res.Rules {
		if r := e.rules.byName[name]; r != nil && r.tally.Tell(k, res) {
			r.sender.Dirty = true
			wake.Up(e.reporter.wake)
		}
	}
}

// kindDirtyLocked makes all rules of a kind be reported.
func (e *Engine) kindDirtyLocked(gk schema.GroupKind) {
	if k := e.rules.kinds[gk]; k != nil {
		for _, r := range k.readers {
			r.sender.Dirty = true
		}
		for _, r := range k.writers {
			r.sender.Dirty = true
		}
		wake.Up(e.reporter.wake)
	}
}
