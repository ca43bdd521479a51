// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	// Timeout is how long a write takes at most. It is noted when it has ended, with the time when it began.
	Timeout = 30 * time.Second
	// Rate and Burst are how often one copy may be written: so many times at once, then so many a second.
	Rate  = 5
	Burst = 10
	// RetryRate and RetryBurst are how many failed writes are tried again a second, of all copies together. The first
	// RetryFreely of each copy do not count.
	RetryRate   = 50
	RetryBurst  = 500
	RetryFreely = 3

	firstBackoff = 100 * time.Millisecond
	// longest is how long any copy waits at most: for the next write of the same content, and for its turn among all
	// that failed.
	longest = 5 * time.Minute
	// fewNotes are not swept, which drops those that say nothing any more. More are, when they have doubled, and once in
	// sweepAfter.
	fewNotes   = 256
	sweepAfter = time.Minute
	// forgetFailure is how long after the last failure of a copy its failures count. A copy that goes on failing is tried
	// again long before.
	forgetFailure = 4 * longest
	// oneToken is a token of a limiter, whose fractions are not exact.
	oneToken = 1 - 1e-6
)

// Pacer keeps a note of each copy that was written or failed lately.
type Pacer struct {
	notes   map[place.Key]*note
	most    int           // how many notes there may be before they are swept
	latest  time.Time     // the latest time that was told
	swept   time.Time     // when notes were swept last
	retries *rate.Limiter // of failed writes
}

// note is what is remembered of a copy between attempts.
type note struct {
	pace      *rate.Limiter
	failures  int
	failed    time.Time // last
	recreated uint64    // the content that the copy was made anew for
	// content was written last, at wrote, and repeats times in a row.
	content uint64
	wrote   time.Time
	repeats int
}

// New makes a Pacer that has no notes.
func New() *Pacer {
	return &Pacer{notes: map[place.Key]*note{}, most: fewNotes, retries: rate.NewLimiter(RetryRate, RetryBurst)}
}

func (p *Pacer) note(k place.Key, now time.Time) *note {
	if now.After(p.latest) { // writes are noted with the time when they began
		p.latest = now
	}
	if len(p.notes) >= p.most || len(p.notes) >= fewNotes && p.latest.Sub(p.swept) >= sweepAfter {
		p.sweep()
	}
	n := p.notes[k]
	if n == nil {
		n = &note{}
		p.notes[k] = n
	}
	return n
}

// sweep drops the notes that say nothing any more. The map is made anew, because one does not become smaller.
func (p *Pacer) sweep() {
	kept := map[place.Key]*note{}
	for k, n := range p.notes {
		if !n.saysNothing(p.latest) {
			kept[k] = n
		}
	}
	p.notes, p.most, p.swept = kept, max(fewNotes, 2*len(kept)), p.latest
}

// Allowance is what a Pacer says of one copy at one moment. It needs no lock.
type Allowance struct {
	content   uint64        // was written last, again and again,
	spacing   time.Duration // and must wait for so long
	often     bool
	recreated uint64
}

// Allowance looks up a copy, for the worker that is about to decide on it.
func (p *Pacer) Allowance(k place.Key, now time.Time) (a Allowance) {
	n := p.notes[k]
	if n == nil {
		return a
	}
	if n.repeats > 0 {
		a.content, a.spacing = n.content, n.spacing()-now.Sub(n.wrote)
	}
	a.often, a.recreated = n.pace != nil && n.pace.TokensAt(now) < oneToken, n.recreated
	return a
}

// Wait is how long a content must wait before it is written, 0 for not at all; often says that this is because the copy
// is written too often, whatever its content.
func (a Allowance) Wait(content uint64) (wait time.Duration, often bool) {
	switch {
	case a.spacing > 0 && content == a.content:
		return a.spacing, false
	case a.often:
		return time.Second / Rate, true
	}
	return 0, false
}

// Recreated is the content that the copy was made anew for last, 0 for none.
func (a Allowance) Recreated() uint64 { return a.recreated }

// Wrote notes that a content was written, whether or not that failed, by a write that began at a time.
func (p *Pacer) Wrote(k place.Key, content uint64, at time.Time) {
	n := p.note(k, at)
	if n.pace == nil {
		n.pace = rate.NewLimiter(Rate, Burst)
	}
	n.pace.AllowN(at, 1)
	if content != n.content || n.longAgo(at) {
		n.content, n.repeats = content, 0
	} else {
		n.repeats++
	}
	n.wrote = at
}

// longAgo reports whether the note is of so long ago that a write of the same content, begun now, is the first again.
func (n *note) longAgo(now time.Time) bool { return now.Sub(n.wrote) > time.Second+2*n.spacing() }

// saysNothing reports whether without the note all goes on as with it, but for one repetition at most. What was repeated
// already is kept until no write is under way that began soon after the last one.
func (n *note) saysNothing(now time.Time) bool {
	if n.failures > 0 && now.Sub(n.failed) < forgetFailure || n.recreated != 0 {
		return false
	}
	if n.repeats > 0 {
		now = now.Add(-Timeout)
	}
	return n.longAgo(now) && (n.pace == nil || n.pace.TokensAt(now) >= Burst)
}

// spacing is the time between two writes of the same content that follow each other: none for a burst, and then
// twice as long after every few.
func (n *note) spacing() time.Duration {
	if n.repeats <= Burst {
		return 0
	}
	return min(time.Second/Rate<<min((n.repeats-Burst)/Rate, 16), longest)
}

// Failed notes that a write failed, and returns how long to wait before the next: as the back-off of the copy says, which
// is at most most, or until its turn among all that failed. When the API server does not answer (outage) there are no
// turns: nothing is asked too much of it.
func (p *Pacer) Failed(k place.Key, most time.Duration, outage bool, now time.Time) time.Duration {
	n, wait := p.note(k, now), most
	if n.failures < 16 {
		wait = min(firstBackoff<<n.failures, most)
	}
	n.failures++
	n.failed = now
	if outage || n.failures <= RetryFreely {
		return wait
	}
	r := p.retries.ReserveN(now, 1)
	if r.DelayFrom(now) > longest {
		r.CancelAt(now)
		return longest
	}
	return max(wait, r.DelayFrom(now))
}

// Succeeded ends the back-off of a copy.
func (p *Pacer) Succeeded(k place.Key) {
	if n := p.notes[k]; n != nil {
		n.failures = 0
	}
}

// SetRecreated notes for which content a copy is made anew; 0 forgets it.
func (p *Pacer) SetRecreated(k place.Key, content uint64, now time.Time) {
	if content != 0 || p.notes[k] != nil {
		p.note(k, now).recreated = content
	}
}
