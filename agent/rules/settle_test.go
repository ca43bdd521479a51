// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	listers "github.com/roster-mesh/roster/kube/client/listers/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// comingBack is a lister that has no rule in the first call, and one from then on.
type comingBack struct {
	listers.ResourceSyncRuleLister
	rule  *v1alpha1.ResourceSyncRule
	asked bool
	back  func()
}

func (c *comingBack) Get(string) (*v1alpha1.ResourceSyncRule, error) {
	if c.asked {
		return c.rule, nil
	}
	c.asked = true
	c.back()
	return nil, errors.New("not found")
}

// A rule that is created again while its deletion is passed to the engine reaches the engine after the deletion.
func TestRecreatedRuleIsNotDeleted(t *testing.T) {
	w, settled := newWorld(t), make(chan struct{})
	back := rule("r", "", "2")
	w.options.Registry.Rules = &comingBack{ResourceSyncRuleLister: w.options.Registry.Rules, rule: back, back: func() {
		if w.unsettled.mu.TryLock() {
			t.Error("the engine may get the newer state first")
			w.unsettled.mu.Unlock()
		}
		go func() {
			defer close(settled)
			w.RuleChanged(nil, back)
		}()
	}}
	w.unsettled.addLocked(rule("r", "", "1"))
	w.Settle("r", true)
	<-settled
	if known := w.known(t, "r"); len(known) != 1 {
		t.Error("the engine does not know of the rule")
	}
}

// known runs until the engine has reported all of these rules, and returns the ones that it reported.
func (w *world) known(t *testing.T, all ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w.engine.Ready()
	go func() { ended <- w.Run(ctx) }()
	reported := func() []string {
		w.reports.mu.Lock()
		defer w.reports.mu.Unlock()
		return slices.Sorted(maps.Keys(w.reports.statuses))
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		known := reported()
		if !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(known, name) }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine reports %v, not %v", known, all)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return reported()
}

// While frozen, no own rule is certain: even a restored one may be written to, as by the agent's status update, and is
// newer then.
func TestOwnRuleIsUnsettledWhileFrozen(t *testing.T) {
	w := newWorld(t)
	w.frozen = true
	before, now := rule("r", "", "900"), rule("r", "", "1210")
	w.put(t, now)
	w.RuleChanged(before, now)
	if w.Settle("r", true); !w.IsUnsettled("r") {
		t.Error("the engine gets a rule of this cluster's own while it is frozen")
	}
	copied := rule("copy", idB, "1")
	w.put(t, copied)
	if w.RuleChanged(nil, copied); w.IsUnsettled("copy") {
		t.Error("a copy is unsettled")
	}
	w.frozen = false
	if w.SettleAll(); w.IsUnsettled("r") {
		t.Error("it is unsettled after the confirmation")
	}
	if known := w.known(t, "r", "copy"); len(known) != 2 {
		t.Errorf("the engine knows %v", known)
	}
}

// The engine gets a deletion, or an older state, once it is certain.
func TestSettle(t *testing.T) {
	published := func(r *v1alpha1.ResourceSyncRule) []byte {
		data, err := payload.EncodeRule(r)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	another := rule("r", idB, "1")
	another.Spec.Paused = true
	for name, c := range map[string]struct {
		owner     string
		gone      bool                       // from the local API server; else it is older there
		publishes *v1alpha1.ResourceSyncRule // what B publishes
		withdrawn bool                       // and has deleted since
		own       bool                       // who asks
		waits     bool
	}{
		"an own rule is gone":                       {gone: true, own: true},
		"an own rule is gone, the importer asks":    {gone: true, waits: true},
		"an own rule is older":                      {own: true},
		"B has a rule of the name of an own":        {gone: true, own: true, publishes: another, waits: true},
		"a copy is gone":                            {owner: idB, gone: true},
		"a copy is gone, the publisher asks":        {owner: idB, gone: true, own: true, waits: true},
		"a copy is gone that B publishes":           {owner: idB, gone: true, publishes: another, waits: true},
		"a copy is gone that B has deleted":         {owner: idB, gone: true, publishes: another, withdrawn: true},
		"a copy is older":                           {owner: idB},
		"a copy is older, and what B publishes":     {owner: idB, publishes: rule("r", "", "1")},
		"a copy is older, and not what B publishes": {owner: idB, publishes: another, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := newWorld(t), agenttest.Signer(t, idB, agenttest.Key(idB))
			was, now := rule("r", c.owner, "7"), rule("r", c.owner, "5")
			if c.publishes != nil {
				w.published(t, b, payload.RuleKey("r"), replica.Live, published(c.publishes))
			}
			if c.withdrawn {
				w.published(t, b, payload.RuleKey("r"), replica.Deleted, nil)
			}
			if c.gone {
				w.RuleChanged(nil, was)
			} else {
				w.put(t, now)
				w.RuleChanged(was, now)
			}
			waits := func() bool { return len(w.unsettled.owners) > 0 }
			if !waits() || w.IsUnsettled("r") != (c.owner == "") {
				t.Fatalf("before it is certain the engine gets it, or it is unsettled: %t", w.IsUnsettled("r"))
			}
			if w.Settle("r", c.own); waits() != c.waits {
				t.Errorf("unsettled: %t", waits())
			}
			w.put(t, was) // back
			if w.RuleChanged(nil, was); waits() {
				t.Error("it is unsettled though it is back")
			}
		})
	}
}

// A rule whose owner is gone from the group stays, paused.
func TestOrphanIsPaused(t *testing.T) {
	r := rule("r", idB, "1")
	if effectiveRule(r) != r {
		t.Error("a copy is not as it is")
	}
	r.Annotations[v1alpha1.AnnotationOrphaned] = "true"
	if got := effectiveRule(r); !got.Spec.Paused || r.Spec.Paused {
		t.Errorf("paused: %t, in the lister: %t", got.Spec.Paused, r.Spec.Paused)
	}
	own := rule("r", "", "1")
	own.Annotations = map[string]string{v1alpha1.AnnotationOrphaned: "true"}
	if effectiveRule(own) != own {
		t.Error("one that a person took over is an orphan")
	}
}
