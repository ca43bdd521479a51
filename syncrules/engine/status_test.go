// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

func (w *world) eventsOf(reason string) []tally.RuleEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.events), func(e tally.RuleEvent) bool { return e.Reason != reason })
}

func (w *world) sentReports() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *world) condition(rule, kind string) metav1.Condition {
	for _, c := range w.report(rule).Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// Thousands of copies make a handful of events, which say how many they were.
func TestEventsAreSummedUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 500 {
			w.peers[a].put(configMap(fmt.Sprintf("x%03d", i), "1"))
		}
		missing := configMap("y", "1")
		missing.SetNamespace("late")
		w.peers[a].addNamespace("late")
		w.peers[a].put(missing)
		late, _ := lateRule(false)
		late.Name = "late"
		w.setRule(late)
		time.Sleep(5 * time.Minute)
		done := w.eventsOf(tally.EventReconciled)
		if len(done) == 0 || len(done) > 2 || !strings.Contains(done[0].Message, "500 objects") || done[0].Warning || done[0].Rule != "r" {
			t.Errorf("events %+v", done)
		}
		if waiting := w.eventsOf(tally.EventMissingNamespace); len(waiting) != 1 || !strings.Contains(waiting[0].Message, "ConfigMap late/y") || !waiting[0].Warning {
			t.Errorf("events %+v: one that lasts is told once", waiting)
		}
		w.local.put(configMap("mine", "1"))
		w.peers[a].put(configMap("mine", "2"))
		w.settle()
		if not := w.eventsOf(tally.EventNotReconciled); len(not) != 1 || !strings.Contains(not[0].Message, "ConfigMap default/mine") {
			t.Errorf("events %+v", not)
		}
		w.settle()
		w.mu.Lock()
		n := len(w.events)
		w.mu.Unlock()
		time.Sleep(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.events) != n {
			t.Errorf("events without anything happening: %+v", w.events[n:])
		}
	})
}

func TestOrphansAreListedAndAdopted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 12 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		if c := w.condition("r", ConditionOrphans); c.Type != "" {
			t.Errorf("there are no orphans, and yet %+v", c)
		}
		w.setRule(testRule("r", "x00"))
		w.settle()
		c := w.condition("r", ConditionOrphans)
		if c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "11 copies") || !strings.Contains(c.Message, "ConfigMap default/x01, ConfigMap default/x02") || !strings.Contains(c.Message, "and 3 more") {
			t.Errorf("condition %+v", c)
		}
		if e := w.eventsOf(tally.EventOrphaned); len(e) != 1 || e[0].Rule != "r" || !strings.Contains(e[0].Message, "11 objects") {
			t.Errorf("events %+v", e)
		}
		w.kill()
		w.start()
		if c := w.condition("r", ConditionOrphans); !strings.HasPrefix(c.Message, "11 copies") {
			t.Errorf("after a restart: %+v", c)
		}
		w.setRule(testRule("r"))
		w.settle()
		w.wantOwner(cm("x05"), a, false)
		if c := w.condition("r", ConditionOrphans); c.Type != "" {
			t.Errorf("adopted again, and yet %+v", c)
		}
	})
}

// TestParityC04 of the engine: what a deleted rule leaves behind is told.
func TestOrphansOfADeletedRuleAreTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 12 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		w.e.DeleteRule("r")
		w.settle()
		w.wantOwner(cm("x05"), a, true)
		if e := w.eventsOf(tally.EventOrphaned); len(e) != 1 || e[0].Rule != "r" || !strings.Contains(e[0].Message, "12 objects") {
			t.Errorf("events %+v", e)
		}
	})
}

// A member can have objects come and go that many rules of this cluster select. Their statuses are written no more often than is promised, all
// in the end, and that of a rule which somebody edits at once; rules of others do not wait for them.
func TestReportsOfOwnRulesAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		const many, changes = inforce.MaxRules, 8
		began := time.Now()
		for n := range many {
			w.setRule(testRule(fmt.Sprint("own-", n)))
		}
		foreign := testRule("foreign")
		foreign.Labels = map[string]string{v1alpha1.LabelOwnerClusterID: b}
		foreign.Annotations = map[string]string{v1alpha1.AnnotationOwnerClusterID: b}
		w.setRule(foreign)
		for n := range changes {
			time.Sleep(6 * time.Second)
			w.peers[a].put(configMap(fmt.Sprint("x", n), "1"))
		}
		time.Sleep(6 * time.Second)
		most := ownReportsAtOnce + int(ownReports*time.Since(began).Seconds()) + 4*changes // of the foreign one
		if n := w.sentReports(); n > most || n < most-many {
			t.Errorf("%d reports, want %d at most", n, most)
		}
		if w.report("foreign").Matched != changes {
			t.Error("a rule of another cluster waits for those")
		}
		edited := testRule("own-7")
		edited.Generation = 2
		w.setRule(edited)
		time.Sleep(3 * time.Second)
		if w.report("own-7").ObservedGeneration != 2 {
			t.Error("somebody who has edited a rule waits for the others")
		}
		time.Sleep(time.Minute)
		missing := 0
		for n := range many {
			if w.report(fmt.Sprint("own-", n)).Matched != changes {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("in the end the reports of %d rules are not sent", missing)
		}
	})
}

// Changes that alter nothing but the lag are no reason to report.
func TestLagAloneIsNotReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "0"))
		w.settle()
		if r := w.report("r"); len(r.Sources) != 2 || r.Sources[0].Synced != 1 || r.Sources[1].Matched != 0 {
			t.Errorf("sources %+v", r.Sources)
		}
		sent := w.sentReports()
		for i := range 20 {
			w.peers[a].put(configMap("x", fmt.Sprint(i)))
			time.Sleep(3 * time.Second)
		}
		w.wantValue(cm("x"), "19")
		if n := w.sentReports() - sent; n != 0 {
			t.Errorf("%d reports", n)
		}
	})
}

// With GuardLive deletions that are seen count like those that a list lacks.
func TestGuardOfLiveDeletions(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.GuardLive = true }
		w.start()
		w.setRule(testRule("r"))
		for i := range 30 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		w.peers[a].remove(cm("x29")) // one by one is work
		w.settle()
		w.wantGone(cm("x29"))
		time.Sleep(2 * time.Minute) // the window of the guard
		for i := range 25 {
			w.peers[a].remove(cm(fmt.Sprintf("x%02d", i)))
		}
		w.settle()
		if n := len(w.local.names("ConfigMap")); n < 29-20 {
			t.Errorf("%d copies are left of 29: more than the guard lets go", n)
		}
		time.Sleep(time.Hour)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		m := w.report("r").Conditions[0].Message
		if want := "agentctl guard confirm r --deletions=25 "; !strings.Contains(m, want) {
			t.Errorf("message %q lacks %q", m, want)
		}
		confirmed := w.rules["r"].DeepCopy()
		confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "25"}
		w.e.SetRule(confirmed, nil)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 4 {
			t.Errorf("%d copies after the confirmation, want 4", n)
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// Both policies in all of their combinations: what the source lets go of, and what the rule does.
func TestPoliciesAreIndependent(t *testing.T) {
	for _, source := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan} {
		for _, byRule := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan} {
			t.Run(string(source+byRule), func(t *testing.T) {
				inWorld(t, func(w *world) {
					policies := func(r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
						r.Spec.DeletionPolicy, r.Spec.RuleDeletionPolicy = source, byRule
						return r
					}
					want := func(name string, policy v1alpha1.DeletionPolicy) {
						if policy == v1alpha1.DeletionOrphan {
							w.wantOwner(cm(name), a, true)
						} else {
							w.wantGone(cm(name))
						}
					}
					w.setRule(policies(testRule("r", "gone", "edited", "stays")))
					for _, name := range []string{"gone", "edited", "stays"} {
						w.peers[a].put(configMap(name, "1"))
					}
					w.settle()
					w.peers[a].remove(cm("gone"))
					w.settle()
					want("gone", source)
					w.setRule(policies(testRule("r", "gone", "stays")))
					w.settle()
					want("edited", byRule)
					w.wantOwner(cm("stays"), a, false)
					w.e.DeleteRule("r")
					w.settle()
					want("stays", byRule)
				})
			})
		}
	}
}
