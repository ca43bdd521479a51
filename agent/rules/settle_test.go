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

// comingBack has no rule when it is asked first, and one from then on.
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

// A rule may come back just as the engine is to be told that it is gone: it is told of that after it.
func TestARuleMadeAgainIsNotTakenForGone(t *testing.T) {
	w, told := newWorld(t), make(chan struct{})
	back := rule("r", "", "2")
	w.options.Registry.Rules = &comingBack{rule: back, back: func() {
		if w.unsettled.telling.TryLock() {
			t.Error("the engine may be told of what is newer first")
			w.unsettled.telling.Unlock()
		}
		go func() {
			defer close(told)
			w.RuleChanged(nil, back)
		}()
	}}
	w.unsettled.addLocked(rule("r", "", "1"))
	w.Settle("r", true)
	<-told
	if known := w.known(t, "r"); len(known) != 1 {
		t.Error("the engine does not know of the rule")
	}
}

// known runs everything until the engine has reported all of the rules, and returns which rules it has reported.
func (w *world) known(t *testing.T, all ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w.Ready()
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

// A restored rule may be written to, by the agent's own status too, and is newer then.
func TestAnOwnRuleWaitsWhileFrozen(t *testing.T) {
	w := newWorld(t)
	w.frozen = true
	before, now := rule("r", "", "900"), rule("r", "", "1210")
	w.put(t, now)
	w.RuleChanged(before, now)
	if w.Settle("r", true); !w.Awaits("r") {
		t.Error("the engine is told of a rule of this cluster's own while it is frozen")
	}
	copied := rule("copy", idB, "1")
	w.put(t, copied)
	if w.RuleChanged(nil, copied); w.Awaits("copy") {
		t.Error("a copy waits for what is not its owner's")
	}
	w.frozen = false
	if w.SettleAll(); w.Awaits("r") {
		t.Error("it waits after the confirmation")
	}
	if known := w.known(t, "r", "copy"); len(known) != 2 {
		t.Errorf("the engine knows %v", known)
	}
}

// The engine is told that a rule is gone, or older, when that is certain.
func TestWhenARuleIsCertain(t *testing.T) {
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
			if !waits() || w.Awaits("r") != (c.owner == "") {
				t.Fatalf("before it is certain it is told, or awaited: %t", w.Awaits("r"))
			}
			if w.Settle("r", c.own); waits() != c.waits {
				t.Errorf("it waits: %t", waits())
			}
			w.put(t, was) // back
			if w.RuleChanged(nil, was); waits() {
				t.Error("it waits though it is back")
			}
		})
	}
}

// A rule whose owner is gone stays, and is not obeyed.
func TestAnOrphanIsNotInForce(t *testing.T) {
	r := rule("r", idB, "1")
	if inForce(r) != r {
		t.Error("a copy is not as it is")
	}
	r.Annotations[v1alpha1.AnnotationOrphaned] = "true"
	if got := inForce(r); !got.Spec.Paused || r.Spec.Paused {
		t.Errorf("paused: %t, in the lister: %t", got.Spec.Paused, r.Spec.Paused)
	}
	own := rule("r", "", "1")
	own.Annotations = map[string]string{v1alpha1.AnnotationOrphaned: "true"}
	if inForce(own) != own {
		t.Error("one that a person took over is an orphan")
	}
}
