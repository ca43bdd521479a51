// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

const (
	// PaceRate and PaceBurst are how often one object may be written: so many times at once, then so many a
	// second. What comes faster is summed up.
	PaceRate  = 5
	PaceBurst = 10
	// retryRate and retryBurst are how many failed writes are tried again a second, of all objects together; the first
	// retryFreely of each do not count.
	retryRate   = 50
	retryBurst  = 500
	retryFreely = 3
	// maxErrors is how many errors a report tells.
	maxErrors = 16
)

type state uint8

const (
	idle   state = iota
	synced       // as it should be
	failed
	held  // left as it is on purpose
	tried // will be looked at again soon
)

// result is what is known of a key after it was worked on. Engine.mu guards it.
type result struct {
	offers   []offer
	owner    string
	state    state
	conflict bool
	reason   string   // of a problem or conflict
	text     string   // the same for people
	rules    []string // that are told
}

// offer is that the rules select an object at an origin.
type offer struct {
	origin  string
	rules   []string
	surplus bool // another object of the origin has the place
}

// note is what is remembered of a key between attempts.
type note struct {
	pace      *rate.Limiter
	failures  int
	recreated uint64 // the content that the copy was made anew for
	// content was written last, at wrote, and repeats times in a row.
	content uint64
	wrote   time.Time
	repeats int
}

// calm ends the back-off; safe on nil.
func (n *note) calm() {
	if n != nil {
		n.failures = 0
	}
}

func (e *Engine) note(k Key) *note {
	n := e.notes[k]
	if n == nil {
		if len(e.notes) >= 4096 && len(e.notes)&(len(e.notes)-1) == 0 { // at powers of two
			for old, n := range e.notes {
				if n.failures == 0 && n.recreated == 0 && n.repeats <= PaceBurst && (n.pace == nil || n.pace.Tokens() >= PaceBurst) {
					delete(e.notes, old)
				}
			}
		}
		n = &note{}
		e.notes[k] = n
	}
	return n
}

// pace is how long the write must wait. Labels or annotations that come back as fast as that are somebody
// else's: they are left alone from then on. Anything else that does is fought over ever more slowly.
func (e *Engine) pace(j *job, d syncrules.Decision) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, now := e.note(j.key), time.Now()
	if wait := n.spacing() - now.Sub(n.wrote); n.repeats > 0 && wait > 0 && j.content(d.Owner) == n.content {
		return wait
	}
	if n.pace == nil {
		n.pace = rate.NewLimiter(PaceRate, PaceBurst)
	}
	if n.pace.Allow() {
		if content := j.content(d.Owner); content != n.content || now.Sub(n.wrote) > time.Second+2*n.spacing() {
			n.content, n.repeats = content, 0
		} else {
			n.repeats++
		}
		n.wrote = now
		return 0
	}
	if c := e.copyAt(j.key); c != nil && d.Difference == syncrules.Extra {
		c.tolerated = true
	}
	return time.Second / PaceRate
}

// paceLongest is how long the same content waits in the end, where something changes it back each time.
const paceLongest = 5 * time.Minute

// spacing is the time between two writes of the same content that follow each other: none for a burst, and then
// twice as long after every few.
func (n *note) spacing() time.Duration {
	if n.repeats <= PaceBurst {
		return 0
	}
	return min(time.Second/PaceRate<<min((n.repeats-PaceBurst)/PaceRate, 16), paceLongest)
}

// content tells what an origin offers for the key from what it offered before; 0 for nothing.
func (j *job) content(origin string) uint64 {
	for i := range j.claims {
		if j.claims[i].Origin == origin {
			return j.claims[i].content
		}
	}
	return 0
}

// record takes in what became of a key. mu is held.
func (e *Engine) record(j *job, out outcome) {
	k := j.key
	r := e.resultOf(j, out)
	e.tallyLag(j, out)
	e.happened(j, out, r)
	if out.problem != nil && out.problem.Reason == problem.ReasonMissingPermission {
		e.suspectWrite(out.decision, out.problem)
	}
	e.replace(k, r)
	if out.wrote && e.draining && (out.decision.Action == syncrules.Delete || out.decision.Action == syncrules.MarkOrphan) {
		e.poke()
	}
	if j.foreign && j.local != nil {
		e.standsAside(k)
	}
	if out.problem != nil && out.problem.Namespace {
		e.awaitNamespace(k)
	} else {
		e.namespaceThere(k)
	}
	switch {
	case r.state == failed && out.problem.Final():
	case r.state == failed && out.problem.Namespace && j.namespaceNews != e.namespaceNews:
		e.enqueue(k) // it may be there by now
	case r.state == failed:
		e.enqueueAfter(k, e.backoff(k, out.problem))
	default:
		e.notes[k].calm()
		if out.decision.Action == syncrules.Wait {
			e.awaits(k, j.awaits())
			e.enqueueAfter(k, settle)
		} else if out.again > 0 {
			e.enqueueAfter(k, out.again)
		}
	}
	if out.slowed {
		e.metrics.slowed()
		e.slowed(k, r.rules)
	}
}

// backoff is how long to wait after a failure: what the back-off of the object says. Those of many that go on failing
// are spread so that all together are tried again at about retryRate, but each after paceLongest at the latest. An
// API server that does not answer is another matter. mu is held.
func (e *Engine) backoff(k Key, p *problem.Problem) time.Duration {
	n, limit := e.note(k), p.MaxBackoff()
	wait := limit
	if n.failures < 16 {
		wait = min(100*time.Millisecond<<n.failures, limit)
	}
	n.failures++
	if p.Reason == problem.ReasonLocalUnreachable || n.failures <= retryFreely {
		return wait
	}
	r := e.retries.Reserve()
	if r.Delay() > paceLongest {
		r.Cancel()
		return paceLongest
	}
	return max(wait, r.Delay())
}

// slowed lets the rules say, for a while, that a copy changes too often. mu is held.
func (e *Engine) slowed(k Key, rules []string) {
	for _, name := range rules {
		r := e.rules[name]
		if r == nil {
			continue
		}
		if t := &r.tally; t.slow == "" { // the first is told, or the status would change as often as the objects
			t.slow = problem.OneLine(fmt.Sprintf("%s changes more than %d times a second; its copy follows at that pace", k, PaceRate))
			r.sender.dirty = true
		}
		r.tally.slowUntil = time.Now().Add(slowFor)
	}
	poked(e.reportWake)
}

// resultOf sums up an outcome. mu is held.
func (e *Engine) resultOf(j *job, out outcome) *result {
	r := &result{owner: j.ownerOf(out.decision)}
	for i := range j.claims {
		if c := &j.claims[i]; len(c.rules) > 0 {
			r.offers = append(r.offers, offer{origin: c.Origin, rules: c.names})
			for _, name := range c.names {
				if !slices.Contains(r.rules, name) {
					r.rules = append(r.rules, name)
				}
			}
		}
	}
	for _, s := range j.surplus {
		r.offers = append(r.offers, offer{s.origin, s.rules, true})
		for _, name := range s.rules {
			if !slices.Contains(r.rules, name) {
				r.rules = append(r.rules, name)
			}
		}
	}
	if j.local != nil && len(r.rules) == 0 {
		r.rules = j.local.rules
	}
	if d := out.decision; (d.Action == syncrules.None || d.Action == syncrules.UpdateStatus) && d.Difference == syncrules.Changed && j.local != nil {
		out.dropped = j.local.dropped // what is there was accepted
	}
	switch out.decision.Action {
	case syncrules.None:
		if len(r.offers) > 0 {
			r.state = synced
		}
	case syncrules.Create, syncrules.Update, syncrules.UpdateStatus:
		r.state = tried
		if old := e.results[j.key]; out.wrote || out.slowed && old != nil && old.state == synced {
			r.state = synced // what is slowed down was so a moment ago
		}
	case syncrules.Delete, syncrules.MarkOrphan:
		if !out.wrote {
			r.state = tried
		}
	case syncrules.Freeze:
		r.state = held
	case syncrules.Wait:
		r.state = tried
	case syncrules.Conflict:
	}
	switch {
	case out.problem != nil:
		r.state, r.reason, r.text = failed, out.problem.Reason, out.problem.Text
	case out.decision.Action == syncrules.Conflict || len(out.decision.Rivals) > 0, len(j.surplus) > 0:
		r.conflict, r.reason, r.text = true, problem.ReasonConflict, e.conflictText(j, out.decision)
	case out.dropped != "":
		r.reason, r.text = problem.ReasonSchemaMismatch, problem.OneLine(j.key.String()+": the API server here does not know "+out.dropped+", and left it out")
	}
	return r
}

// ownerOf is the owner of a decision, whose own text may be a part of the copy as it was: see package packed.
func (j *job) ownerOf(d syncrules.Decision) string {
	if j.local != nil && j.local.owner == d.Owner {
		return j.local.owner
	}
	for i := range j.claims {
		if j.claims[i].Origin == d.Owner {
			return j.claims[i].Origin
		}
	}
	return strings.Clone(d.Owner)
}

func (e *Engine) conflictText(j *job, d syncrules.Decision) string {
	text := j.key.String() + ": "
	if d.Action == syncrules.Conflict {
		text += d.Reason
	} else {
		text += "it is a copy from cluster " + e.clusterName(d.Owner)
		if local := e.copyAt(j.key); local != nil && len(local.rules) > 0 {
			text += ", made by rule " + strings.Join(local.rules, ", ")
		}
	}
	if len(d.Rivals) > 0 {
		names := make([]string, len(d.Rivals))
		for i, id := range d.Rivals {
			names[i] = e.clusterName(id)
		}
		text += "; other content is in cluster " + strings.Join(names, ", ")
	}
	if n := len(j.surplus); n > 0 {
		text += fmt.Sprintf("; %d more would be copied into the same place, such as %s of cluster %s",
			n, j.surplus[0].from, e.clusterName(j.surplus[0].origin))
	}
	return problem.OneLine(text)
}

// clusterName is what people call a cluster. mu is held.
func (e *Engine) clusterName(id string) string {
	if p := e.peers[id]; p != nil {
		return p.name()
	}
	return id
}

// same says that there is nothing new to tell: an object that fails again, say.
func (r *result) same(o *result) bool {
	return r.owner == o.owner && r.state == o.state && r.conflict == o.conflict && r.reason == o.reason && r.text == o.text &&
		slices.Equal(r.rules, o.rules) && slices.EqualFunc(r.offers, o.offers, func(a, b offer) bool {
		return a.origin == b.origin && a.surplus == b.surplus && slices.Equal(a.rules, b.rules)
	})
}

// replace puts the result in place of the one before, and counts it for its rules. mu is held.
func (e *Engine) replace(k Key, r *result) {
	old := e.results[k]
	if old != nil && old.same(r) {
		e.results[k] = r // its texts may be parts of what is there now, see package packed
		e.tellAgain(k, r)
		return
	}
	if old != nil {
		e.count(k, old, -1)
	}
	if r.state == idle && !r.conflict && len(r.offers) == 0 {
		delete(e.results, k)
		e.kindDirty(k.GroupKind)
		return
	}
	e.results[k] = r
	e.count(k, r, 1)
}

// forget removes the result of a key that nobody asks about any more. mu is held.
func (e *Engine) forget(k Key) {
	if old := e.results[k]; old != nil {
		e.count(k, old, -1)
		delete(e.results, k)
	}
}
