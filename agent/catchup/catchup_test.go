// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package catchup

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
)

// A member is asked while it is alive, until it has sent everything, and again after it was gone from the group.
func TestCatchUpAsksOnce(t *testing.T) {
	alive, asked, done := false, 0, 0
	var fails error
	c := New(Options{
		Alive: func(string) bool { return alive }, Log: slog.New(slog.DiscardHandler),
		Pull: func(context.Context, string) error { asked++; return fails },
	})
	c.Done = func(string) { done++ }
	ask := func() error { return c.ask(t.Context(), agenttest.IDB) }
	if err := ask(); err != nil || asked > 0 {
		t.Errorf("who is not met is asked: %v", err)
	}
	alive, fails = true, errors.New("no answer")
	if err := ask(); !errors.Is(err, fails) || c.CaughtUp(agenttest.IDB) || done > 0 {
		t.Errorf("a pull that fails: %v", err)
	}
	fails = nil
	for range 2 {
		if err := ask(); err != nil || !c.CaughtUp(agenttest.IDB) || asked != 2 || done != 1 {
			t.Errorf("asked %d times, done %d times: %v", asked, done, err)
		}
	}
	c.Forget(agenttest.IDB)
	if err := ask(); err != nil || asked != 3 || done != 2 {
		t.Errorf("after it was gone it is asked %d times: %v", asked, err)
	}
}
