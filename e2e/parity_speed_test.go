// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	// promptly is what is promised of a machine that has nothing else to do.
	promptly = time.Second
	// slack is how many of the slowest writes of this machine, seen by a watch, may come on top.
	slack = 10

	updates       = 40
	updatesWithin = 2 * time.Second
)

// Many updates of one object in a short time are summed up and converge at once.
func TestParityC18_ManyUpdatesConverge(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "busy", "all", "0"))
	r.eventuallyCopied(t, configMaps, "busy", "0", r.alpha, r.beta)
	seen, err := r.beta.Watch(t.Context(), configMaps, r.name, "busy")
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(updatesWithin / updates)
	defer tick.Stop()
	began := time.Now()
	for i := range updates {
		<-tick.C
		put(t, r.gamma, configMaps, r.object(configMaps, "busy", "all", fmt.Sprint(i+1)))
	}
	last := time.Now()
	states := 0
	end, err := seen.Until(t.Context(), "the last update", afterFault, func(u *unstructured.Unstructured) bool {
		states++
		return u != nil && valueOf(u) == fmt.Sprint(updates)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.within(t, fmt.Sprintf("after %d updates in %s, which were %d states of the copy,", updates, last.Sub(began), states), last, end.At)
	if states > updates {
		t.Errorf("the copy had %d states", states)
	}
}

// A namespace that comes late has its copies at once, however long it was waited for.
func TestParityC18_LateNamespaceIsNoticed(t *testing.T) {
	r := newRoom(t)
	late := r.name + "-late"
	r.rule(t, r.alpha, "all", ofWidgets+"rules: [{match: [{namespaces: [NS-late]}]}]")
	furnish(t, r.gamma, late)
	u := r.object(widgets, "early", "all", "one")
	u.SetNamespace(late)
	put(t, r.gamma, widgets, u)
	eventually(t, "the rule says which namespace is missing", within, r.ruleSays(r.beta, "all", "False", late))
	pass(t, 5*time.Second) // in which a mere back-off grows
	seen, err := r.beta.Watch(t.Context(), widgets, late, "early")
	if err != nil {
		t.Fatal(err)
	}
	made := time.Now()
	furnish(t, r.beta, late)
	copied, err := seen.Until(t.Context(), "the copy", afterFault, harness.Present)
	if err != nil {
		t.Fatal(err)
	}
	r.within(t, "with its namespace the copy", made, copied.At)
}

// within checks what took from one time to another against the budget, and what this machine gives now.
func (r *room) within(t *testing.T, what string, from, to time.Time) {
	t.Helper()
	var slowest time.Duration
	for i := range 10 {
		name := fmt.Sprintf("raw-%d", i)
		w, err := r.beta.Watch(t.Context(), configMaps, r.name, name)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		put(t, r.beta, configMaps, r.object(configMaps, name, "none", "raw"))
		s, err := w.Until(t.Context(), "a plain write", within, harness.Present)
		if err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, s.At.Sub(began))
	}
	took, most := to.Sub(from), promptly+slack*slowest
	t.Logf("%s took %s; the slowest of ten plain writes took %s", what, took, slowest)
	if took > most {
		t.Errorf("more than %s", most)
	}
}
