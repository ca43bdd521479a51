// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package renewals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/kube/exported"
)

// Somebody who puts back what was there at once makes the agent wait ever longer before it writes again, and that is told once.
// What lasts a minute, and another credential, are written at once.
func TestUndone(t *testing.T) {
	t.Parallel()
	w, mine, undone := newRoom(t), secret(exported.Flux), 0
	mine.Data = map[string][]byte{"value": []byte("mine")}
	clock := time.Unix(5000, 0)
	w.r.writes.now = func() time.Time { return clock }
	undo := func() {
		undone++
		back := *mine
		back.ResourceVersion = fmt.Sprint("mine-", undone)
		w.put(&back)
	}
	wait := func() time.Duration { return w.r.writes.last[mine.UID].due.Sub(clock) }
	undo()
	if _, writes, _ := w.reconcile(); writes != 1 {
		t.Fatalf("%d writes of the first", writes)
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		undo()
		now, writes, events := w.reconcile()
		if writes != 0 || wait() != want || string(now.Data["value"]) != "mine" {
			t.Errorf("undone %d times: %d writes, the wait is %s", i+1, writes, wait())
		}
		if told := i == 2; (events == 1) != told || told && !strings.Contains(w.events[0], "somebody else writes this Secret") {
			t.Errorf("undone %d times: events %q", i+1, w.events)
		}
		undo()
		if _, writes, events := w.reconcile(); writes != 0 || events != 0 || wait() != want {
			t.Errorf("while it waits: %d writes, %d events, the wait is %s", writes, events, wait())
		}
		clock = clock.Add(want)
		if now, writes, _ := w.reconcile(); writes != 1 || !strings.Contains(string(now.Data["value"]), "one") {
			t.Errorf("after %s: %d writes", want, writes)
		}
	}
	w.proven = token("two")
	if _, writes, _ := w.reconcile(); writes != 1 {
		t.Error("another credential is not written at once")
	}
	stale := *w.r.shelf.get(keyOf(mine))
	stale.ResourceVersion = w.r.writes.last[mine.UID].from // the watch is behind
	stale.Data = mine.Data
	w.put(&stale)
	if _, writes, events := w.reconcile(); writes != 1 || events != 0 {
		t.Errorf("a late watch: %d writes, %d events", writes, events)
	}
	clock = clock.Add(time.Minute)
	undo()
	if _, writes, events := w.reconcile(); writes != 1 || events != 0 || w.r.writes.last[mine.UID].undone != 0 {
		t.Errorf("what lasted: %d writes, %d events", writes, events)
	}
	undo()
	if w.reconcile(); wait() != time.Second {
		t.Errorf("after what lasted the wait is %s", wait())
	}
	if len(w.events) != 1 {
		t.Errorf("events %q", w.events)
	}
}
