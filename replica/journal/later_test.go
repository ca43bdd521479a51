// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestLater: what may wait is written after a while, or with what may not, in the order in which it was appended.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := &Term{wake: make(chan struct{}, 1), ended: make(chan struct{})}
		term.room.L = &term.mu
		taken := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-term.wake:
				if want == nil {
					t.Errorf("%s: it is woken for nothing", what)
				}
			default:
				if len(want) > 0 {
					t.Errorf("%s: nobody is told that something is due", what)
				}
			}
			var got []string
			for ops := term.take(); len(ops) > 0; ops = term.take() {
				for _, op := range ops {
					got = append(got, string(op[:1]))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: it writes %q, want %q", what, got, want)
			}
		}
		later := func(ops ...string) {
			for _, op := range ops {
				term.AppendLater([]byte(op))
			}
		}

		for range 2 {
			later("a")
			time.Sleep(maxDelay - time.Millisecond)
			later("b")
			taken("at first")
			time.Sleep(time.Millisecond)
			taken("after a while", "a", "b")
			later("c")
			time.Sleep(maxDelay)
			taken("after the next while", "c")
		}

		later("a")
		term.Append([]byte("b"))
		later("c")
		taken("with what may not wait", "a", "b", "c")
		later("d") // while the time of a has not passed
		time.Sleep(maxDelay)
		taken("after what could not wait", "d")
		time.Sleep(2 * maxDelay)
		taken("when there is nothing")
		later("e")
		time.Sleep(maxDelay)
		taken("after a time with nothing", "e")

		later("a", string(append([]byte("b"), make([]byte, maxBatch)...)))
		taken("when there is much", "a", "b")

		later("a")
		term.fail(ErrClosed)
		later("b")
		taken("in the end", "a")
	})
}

// TestLaterSharesCommits: what may wait is written with what comes meanwhile, and is durable when the term ends.
func TestLaterSharesCommits(t *testing.T) {
	o := openDir(t, t.TempDir())
	defer o.close(t)
	before, err := o.journal.stores.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 200 {
		o.AppendLater(fmt.Appendf([]byte{1}, "%d", i))
		time.Sleep(time.Millisecond) // a commit may be as fast
	}
	took := time.Since(began)
	o.await(t, 200)
	after, err := o.journal.stores.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if commits := after - before; commits > uint64(took/maxDelay)+1 { //nolint:gosec // Not negative.
		t.Errorf("%d commits in %s", commits, took)
	}
	o.AppendLater([]byte{1})
	o.End()
	if o.table.mine != 201 {
		t.Errorf("%d of 201 operations are durable in the end", o.table.mine)
	}
}
