// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// try asks for a write, and makes it if it may.
func (p *Pacer) try(k place.Key, content uint64, now time.Time) (wait time.Duration, often bool) {
	if wait, often = p.Allowance(k, now).Wait(content); wait == 0 {
		p.Wrote(k, content, now)
	}
	return wait, often
}

func key(i int) place.Key {
	return place.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: fmt.Sprint(i)}
}

// A copy whose source changes all the time is written in a burst, and then at Rate.
func TestManyContents(t *testing.T) {
	p, now := New(), time.Now()
	for content := range uint64(Burst) {
		if wait, _ := p.try(key(0), content, now); wait != 0 {
			t.Fatalf("write %d waits %s", content, wait)
		}
	}
	if wait, often := p.try(key(0), 100, now); wait != time.Second/Rate || !often {
		t.Errorf("after a burst it waits %s, too often: %t", wait, often)
	}
	if wait, _ := p.try(key(1), 100, now); wait != 0 {
		t.Errorf("another copy waits %s", wait)
	}
	if wait, _ := p.try(key(0), 100, now.Add(time.Second/Rate)); wait != 0 {
		t.Errorf("it waits %s after its time", wait)
	}
}

// What something changes back each time is written ever more seldom, but at least every five minutes.
func TestSameContentAgainAndAgain(t *testing.T) {
	p, now := New(), time.Now()
	var last time.Duration
	for range 200 {
		wait, _ := p.try(key(0), 1, now)
		for wait > 0 {
			if wait > longest {
				t.Fatalf("it waits %s", wait)
			}
			now, last = now.Add(wait), wait
			wait, _ = p.try(key(0), 1, now)
		}
	}
	if last != longest {
		t.Errorf("in the end it waits %s, want %s", last, longest)
	}
	if wait, _ := p.try(key(0), 2, now.Add(time.Second)); wait != 0 {
		t.Errorf("other content waits %s", wait)
	}
}

func TestBackoff(t *testing.T) {
	p, now := New(), time.Now()
	const most = 30 * time.Second
	before := time.Duration(0)
	for i := range 20 {
		wait := p.Failed(key(0), most, true, now)
		if wait > most || wait < before || i == 0 && wait != firstBackoff || i == 19 && wait != most {
			t.Errorf("failure %d waits %s after %s", i, wait, before)
		}
		before = wait
	}
	p.Succeeded(key(0))
	p.Succeeded(key(1))
	if wait := p.Failed(key(0), most, true, now); wait != firstBackoff {
		t.Errorf("the first failure after a success waits %s", wait)
	}
}

// Many that go on failing are tried again at a rate for all, each after five minutes at the latest.
func TestRetriesOfAllTogether(t *testing.T) {
	p, now := New(), time.Now()
	const copies = 40_000
	for range RetryFreely {
		for i := range copies {
			if wait := p.Failed(key(i), time.Second, false, now); wait > time.Second {
				t.Fatalf("copy %d waits %s", i, wait)
			}
		}
	}
	soon := 0
	for i := range copies {
		wait := p.Failed(key(i), time.Second, false, now)
		if wait > longest {
			t.Fatalf("copy %d waits %s", i, wait)
		}
		if wait <= 10*time.Second {
			soon++
		}
	}
	if most := RetryBurst + 10*RetryRate; soon > most {
		t.Errorf("%d are tried again within ten seconds, want at most %d", soon, most)
	}
}

func TestRecreated(t *testing.T) {
	p, now := New(), time.Now()
	p.SetRecreated(key(0), 0, now)
	if p.Allowance(key(0), now).Recreated() != 0 || len(p.notes) != 0 {
		t.Error("nothing was made anew")
	}
	p.SetRecreated(key(0), 7, now)
	if p.Allowance(key(0), now).Recreated() != 7 {
		t.Errorf("made anew for %d", p.Allowance(key(0), now).Recreated())
	}
}

// Of many copies that are each written once there are notes of the last seconds. A copy that is written again and again
// beside them waits as it would alone.
func TestNotesAreDropped(t *testing.T) {
	p, alone, now := New(), New(), time.Now()
	p.SetRecreated(key(-1), 7, now)
	p.Failed(key(-2), time.Second, true, now)
	const perSecond = 500
	most := 0
	for i := range 20 * perSecond {
		p.try(key(i), 1, now)
		if i%(perSecond/4) == 0 {
			wait, _ := p.try(key(-3), 1, now)
			if want, _ := alone.try(key(-3), 1, now); wait != want {
				t.Fatalf("at %d a content that is written again waits %s, alone %s", i, wait, want)
			}
		}
		most = max(most, len(p.notes))
		now = now.Add(time.Second / perSecond)
	}
	if most > 2*(perSecond+3)+fewNotes {
		t.Errorf("at %d copies a second there are %d notes", perSecond, most)
	}
	if p.notes[key(-3)].repeats <= Burst {
		t.Errorf("what is written again and again was noted %d times in a row", p.notes[key(-3)].repeats)
	}
	now = now.Add(forgetFailure / 2)
	p.try(key(-4), 1, now)
	if len(p.notes) != 3 || p.Allowance(key(-1), now).Recreated() != 7 || p.notes[key(-2)] == nil {
		t.Errorf("later there are %d notes", len(p.notes))
	}
}

// After an outage in which very many copies failed, their notes go a minute after they were written, and also when they are
// tried no more.
func TestNotesOfAnOutage(t *testing.T) {
	p, now := New(), time.Now()
	const copies = 20_000
	for i := range copies {
		p.Failed(key(i), time.Second, true, now)
	}
	if len(p.notes) != copies {
		t.Fatalf("%d of %d failures are noted", len(p.notes), copies)
	}
	now = now.Add(time.Second)
	for i := range copies / 2 {
		p.Wrote(key(i), 1, now)
		p.Succeeded(key(i))
	}
	now = now.Add(sweepAfter)
	p.Wrote(key(0), 1, now)
	if len(p.notes) != 1+copies/2 {
		t.Errorf("%d notes are left of it, want %d of failures and one", len(p.notes), copies/2)
	}
	p.Wrote(key(0), 1, now.Add(forgetFailure))
	if len(p.notes) != 1 {
		t.Errorf("%d notes are left of copies that are tried no more", len(p.notes)-1)
	}
}

// A write is noted when it has ended. Until then, what it repeats is not forgotten, however many others are written.
func TestSlowWriteOfTheSameContent(t *testing.T) {
	p, now := New(), time.Now()
	for range 2 * Burst {
		p.Wrote(key(0), 1, now)
	}
	began := now.Add(p.notes[key(0)].spacing())
	for i := range 2 * fewNotes {
		p.Wrote(key(i+1), 1, began.Add(Timeout-time.Second))
	}
	p.Wrote(key(0), 1, began)
	if got := p.notes[key(0)].repeats; got != 2*Burst {
		t.Errorf("it was noted %d times in a row, want %d", got, 2*Burst)
	}
}
