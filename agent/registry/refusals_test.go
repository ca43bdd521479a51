// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"log/slog"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/replica"
)

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
