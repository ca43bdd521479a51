// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/replica"
)

// A member is asked while it is alive, until it has sent everything, and again after it was gone from the group.
func TestCatchUpAsksOnce(t *testing.T) {
	alive, asked, done := false, 0, 0
	var fails error
	c := NewCatchUp(CatchUpOptions{
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

// Objects that cannot be used are logged once for each entry, and for a bounded number of keys.
func TestRefusalsAreBounded(t *testing.T) {
	log := &countingHandler{}
	r := NewRefusals(slog.New(log))
	entry := replica.Entry{Key: payload.RuleKey("r"), Origin: agenttest.IDB, Epoch: 1, Sequence: 1}
	for range 3 {
		r.Refuse(entry, payload.ErrPayload)
	}
	if entry.Sequence++; log.records != 1 {
		t.Errorf("the same entry is logged %d times", log.records)
	}
	if r.Refuse(entry, payload.ErrPayload); log.records != 2 {
		t.Errorf("another entry under the same key: logged %d times", log.records)
	}
	for i := range 2 * maxRefused {
		entry.Key.Name = "flood" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		r.Refuse(entry, payload.ErrPayload)
	}
	if log.records != maxRefused+1 || len(r.last) != maxRefused {
		t.Errorf("%d keys are remembered, and %d lines logged", len(r.last), log.records)
	}
}

// countingHandler counts what is logged.
type countingHandler struct{ records int }

func (*countingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *countingHandler) Handle(context.Context, slog.Record) error {
	h.records++
	return nil
}
func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *countingHandler) WithGroup(string) slog.Handler      { return h }
