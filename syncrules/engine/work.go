// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/drift"
	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/pace"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
	"github.com/roster-mesh/roster/syncrules/packed"
)

const (
	writeTimeout = pace.Timeout
	// raceRetry is for when a write lost a race and the event that it lost to does not come.
	raceRetry = time.Second
)

// errRace is returned by a step whose write lost against another one: the event of that one puts the key up
// again.
var errRace = errors.New("lost a race")

// work takes keys until the queue is shut down.
func (e *Engine) work(ctx context.Context) {
	for {
		key, shutdown := e.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			e.process(ctx, key)
		}
		e.queue.Done(key)
	}
}

// process makes one copy what it should be, as a rule by at most one write.
func (e *Engine) process(ctx context.Context, key Key) {
	e.mu.Lock()
	if !e.outcomes.lanes.Has(key) && !e.queue.InTurnLocked(key) {
		e.mu.Unlock()
		return
	}
	if !e.outcomes.lanes.Enter(key, time.Now(), e.linesLocked) {
		e.queue.ParkLocked(key)
		e.mu.Unlock()
		return
	}
	e.queue.TakenLocked(key)
	e.local.early[key] = earlyEvent{}
	j := e.gatherLocked(key)
	look := e.gatherObservedLocked(j)
	e.mu.Unlock()
	var out, seen outcome
	if j != nil {
		e.metrics.Decisions.Inc()
		out = e.decide(ctx, j)
	}
	if look != nil {
		seen = e.observe(ctx, look)
	}
	if ctx.Err() != nil {
		return // the outcome is that of being stopped
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if j != nil {
		e.recordLocked(j, out)
		e.recordObservedLocked(key, look, seen)
		if out.wrote && look != nil {
			e.queue.EnqueueLocked(key) // what was seen may not be there any more
		}
	}
	if e.queue.DoneLocked(key) {
		e.kindDirtyLocked(key.GroupKind)
	}
	e.settleQuotaLocked(key, j, out)
	e.takeEarlyLocked(key)
	for _, next := range e.outcomes.lanes.Leave(key, out.took, time.Now()) {
		e.queue.UnparkLocked(next, e.outcomes.lanes.Has(next))
	}
}

// linesLocked are those in which a key may wait, as far as it is not known because of whom it does: those of the cluster that has the copy, or else of those that may get it.
func (e *Engine) linesLocked(k Key) (lines []turns.Path) {
	const few = 16
	c := e.local.copies.At(k)
	for _, h := range e.holdersLocked(k) {
		if ent := h.v.entries[h.from]; (c == nil || h.v.peer == c.Owner) && len(lines) < few && len(e.selectorsLocked(h.v, ent, k)) > 0 {
			lines = append(lines, e.linesOfLocked(h.v, ent, k)...)
		}
	}
	switch {
	case len(lines) > 0:
		return lines
	case c == nil:
		return e.outcomes.paths.Lines("", nil, time.Now())
	}
	authors := e.authorsLocked(c.Rules)
	return e.outcomes.paths.Lines(c.Owner, append(authors, cmp.Or(c.Author, c.Owner))[:max(1, len(authors))], time.Now())
}

// linesOfLocked are those because of an entry.
func (e *Engine) linesOfLocked(v *view, ent *entry, k Key) []turns.Path {
	rules := e.selectorsLocked(v, ent, k)
	if len(rules) == 0 {
		return e.linesLocked(k) // the rules that selected it are gone
	}
	return e.outcomes.paths.Lines(v.peer, e.authorsOf(e.makersOf(rules)), time.Now())
}

// outcome is what became of a key.
type outcome struct {
	decision syncrules.Decision
	wrote    bool
	began    time.Time        // of the write; zero where none was tried
	content  uint64           // that was to be written then, whatever was found in its place
	took     time.Duration    // to write, or to fail to
	problem  *problem.Problem // of the object or its write
	again    time.Duration
	slowed   bool         // the same is written again and again, or the copy is written
	tooOften bool         // too often
	waits    bool         // the owner's quota is used up
	bytes    int64        // that were to be written; where they were, it is to the owner's charge
	answer   *copies.Copy // what the server made of it; nil where it did not say
	more     bool         // another request must follow
	// recreated is the content that the copy is made anew for, if remade; 0 when that is over.
	recreated uint64
	remade    bool
	dropped   string // the fields that the server did not keep
	drift     drift.Kind
}

// decide plans and acts; mu is not held.
func (e *Engine) decide(ctx context.Context, j *job) outcome {
	if j.judged && j.local == nil {
		return outcome{decision: j.verdict, again: j.recheck}
	}
	if len(j.claims) == 1 && j.claims[0].waits && j.local == nil && !j.foreign { // it is rendered when its turn comes
		return outcome{decision: syncrules.Decision{Action: syncrules.Create, Owner: j.claims[0].Origin}, waits: true}
	}
	w, err := e.weigh(j)
	if err != nil {
		return outcome{problem: e.errors().Problem(err, j.key, j.secret())}
	}
	if j.foreign && j.local == nil {
		if done, out := e.readForeign(ctx, j, w); done {
			return out
		}
	}
	out := outcome{decision: syncrules.Plan(w.Facts), problem: w.problem}
	switch out.decision.Action {
	case syncrules.Create, syncrules.Update, syncrules.UpdateStatus, syncrules.Delete, syncrules.MarkOrphan:
	default:
		return out
	}
	now := time.Now()
	if out.decision.Action != syncrules.Delete && out.decision.Action != syncrules.MarkOrphan {
		if j.claimOf(out.decision.Owner).waits {
			out.waits = true
			return out
		}
		if out.bytes = packed.SizeOf(out.decision.Object.Object); !e.fits(j, out.decision.Owner, out.bytes, w.Local) && (j.local != nil || !e.wasRecreated(j, out.decision.Desired)) {
			out.problem = e.noRoom(j, out.decision.Owner)
			return out
		}
	}
	content := j.claimOf(out.decision.Owner).content
	if wait, often := j.allowance.Wait(content); wait > 0 {
		out.slowed, out.tooOften, out.again = true, often, wait
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	action := out.decision.Action
	out.began, out.content = now, content
	err = e.write(ctx, j, w, &out)
	out.took = max(1, time.Since(now))
	switch {
	case errors.Is(err, errRace):
		out.again = raceRetry
	case err != nil:
		out.problem = e.errors().Problem(err, j.key, j.secret())
	case out.decision.Action != action && out.answer == nil:
		err = errRace // something was in the way: nothing was written
	default:
		out.wrote = true
	}
	e.metrics.Write(action, err, errRace)
	return out
}

// readExisting reads, once, the object that a create ran into. A copy that the watch did not tell of (its label was
// taken away, or it is only late) is decided on anew; anything else is in the way.
func (e *Engine) readExisting(ctx context.Context, j *job, w *weighed, out *outcome) error {
	obj, err := e.o.Target.Read(ctx, out.decision.Object.GroupVersionKind(), j.key.Namespace, j.key.Name)
	missing := apierrors.IsNotFound(err)
	switch {
	case missing && !j.observed:
		return errRace
	case err != nil && !missing:
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if missing {
		if !e.conflicts.MissedLocked(j.key, j.written()) {
			out.again = conflicts.Retry
		}
		return errRace
	}
	if c := copies.New(obj); c != nil && c.Owner != "" {
		e.conflicts.ClearLocked(j.key)
		c.Unseen = time.Now()
		e.putCopyLocked(j.key, c)
		e.queue.EnqueueLocked(j.key)
		return errRace
	}
	w.Local = obj
	out.decision = syncrules.Plan(w.Facts)
	if !e.conflicts.FoundLocked(j.key, j.written(), obj, out.decision, j.offers(w)) {
		out.again = conflicts.Retry
	}
	return nil
}

// readForeign reads an object that was in the way before; done is false when it is not any more.
func (e *Engine) readForeign(ctx context.Context, j *job, w *weighed) (done bool, out outcome) {
	out.decision = syncrules.Plan(w.Facts)
	if out.decision.Action == syncrules.Create {
		err := e.readExisting(ctx, j, w, &out)
		if err == nil && out.decision.Action == syncrules.Update {
			return false, outcome{} // it is adopted
		}
		if err == nil {
			out.problem = w.problem
			return true, out
		}
		if !errors.Is(err, errRace) {
			out.problem = e.errors().Problem(err, j.key, j.secret())
			return true, out
		}
	}
	e.mu.Lock()
	e.conflicts.ClearLocked(j.key)
	e.mu.Unlock()
	return false, outcome{}
}
