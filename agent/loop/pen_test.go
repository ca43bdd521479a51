// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// Who has a pen writes without rests at first, and then an eighth of the time, however many wait; when nothing was written for long, it
// is as at first. One write that takes long is not followed by a rest that is eight times as long.
func TestPenRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 10 * time.Millisecond
		pen := NewPen()
		write := func(took time.Duration, times int) (all time.Duration) {
			began := time.Now()
			for range times {
				_ = pen.write(t.Context(), func() error { time.Sleep(took); return nil })
			}
			return time.Since(began)
		}
		first := int(penFirst / took)
		for range 2 {
			if all := write(took, first); all > penFirst+took {
				t.Errorf("the first %d take %s", first, all)
			}
			write(took, first/(penPart-1)+1) // what comes back meanwhile
			if all, want := write(took, 100), 100*penPart*took; all < want*9/10 || all > want*11/10 {
				t.Errorf("when those are written, 100 take %s, want %s", all, want)
			}
			if all, most := write(time.Minute, 1), time.Minute+time.Second; all > most {
				t.Errorf("one that takes a minute takes %s with its rest, want at most %s", all, most)
			}
			time.Sleep(penPart * penFirst)
		}
	})
}

// Loops that share a pen write one after the other, each in its turn: one that has thousands to write holds up no other for more than a
// write and its rest.
func TestPenIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, many = 10 * time.Millisecond, 4096
		ctx, cancel := context.WithCancel(t.Context())
		pen, busy, done := NewPen(), 0, map[string]time.Duration{}
		began, ended := time.Now(), make(chan struct{})
		loops := map[string]*Loop[int]{}
		for _, name := range []string{"flooded", "honest"} {
			l := New(name, slog.New(slog.DiscardHandler), func(context.Context, int) error {
				if busy++; busy > 1 {
					t.Error("two write at a time")
				}
				time.Sleep(took)
				busy--
				done[name] = time.Since(began)
				return nil
			})
			l.pen = pen
			loops[name] = l
			go func() { _ = l.Run(ctx, 2); ended <- struct{}{} }()
		}
		synctest.Wait()
		for n := range many {
			loops["flooded"].Add(n)
		}
		time.Sleep(time.Minute) // there are rests by now
		before := time.Since(began)
		loops["honest"].Add(0)
		time.Sleep(time.Minute)
		if waited, most := done["honest"]-before, 3*penPart*took; done["honest"] == 0 || waited > most {
			t.Errorf("the other loop waits for %s, want at most %s", waited, most)
		}
		if done["flooded"] < before {
			t.Error("there is no flood any more")
		}
		cancel()
		<-ended
		<-ended
	})
}
