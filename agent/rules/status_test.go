// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// The status of this cluster's own rules waits for no other's.
func TestStatusesOfOwnRules(t *testing.T) {
	w := newWorld(t)
	w.put(t, &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "own"}})
	for _, name := range []string{"own", "gone"} {
		w.statusChanged(name)
	}
	if own, others := w.ownStatuses.Len(), w.statuses.Len(); own != 1 || others != 1 {
		t.Errorf("%d own rules and %d of others have a status to be written", own, others)
	}
}

// The status of another cluster's rule that waits for its turn is not made up before that.
func TestStatusWaitsForItsTurn(t *testing.T) {
	w, made := newWorld(t), 0
	w.budget = budget.New(quota.NewLimits(1, 1e-3, 1000, 1), w.statuses.AddAfter)
	w.options.Now = func() time.Time { made++; return w.now }
	for _, name := range []string{"first", "waits"} {
		w.put(t, rule(name, idB, "1"))
		w.api.SetObject(name, []byte(`{"apiVersion":"roster.invalid/v1","kind":"ResourceSyncRule","metadata":{"name":"`+name+`"}}`))
		w.reports.set(name, reportOf(metav1.ConditionTrue, "Synced"))
	}
	if err := w.writeStatus(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := w.writeStatus(t.Context(), "waits"); !errors.Is(err, loop.ErrWaits) {
			t.Fatalf("a byte is left in 1,000 s, and it does not wait: %v", err)
		}
	}
	if made != 2 {
		t.Errorf("two statuses were made up %d times", made)
	}
}

func TestReportReplacesOnlyItsOwnConditions(t *testing.T) {
	status := v1alpha1.ResourceSyncRuleStatus{
		Matched: 1, Sources: []v1alpha1.SourceStatus{{ClusterID: "a", Lag: &metav1.Duration{Duration: time.Second}}, {ClusterID: "gone"}},
		Conditions: []metav1.Condition{
			{Type: engine.ConditionReady, Status: metav1.ConditionFalse, Reason: "Old"},
			{Type: engine.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "Old"},
			{Type: engine.ConditionOrphans, Status: metav1.ConditionTrue, Reason: "Old"},
			{Type: conditionNameClash, Status: metav1.ConditionTrue, Reason: "SameName"},
		},
	}
	report := engine.RuleReport{
		Matched: 2, Sources: []v1alpha1.SourceStatus{{ClusterID: "a"}},
		Conditions: []metav1.Condition{{Type: engine.ConditionReady, Status: metav1.ConditionTrue, Reason: "Synced"}},
	}
	applyReport(&status, report, metav1.Time{})
	if len(status.Conditions) != 2 || status.Conditions[0].Reason != "Synced" || status.Conditions[1].Type != conditionNameClash || status.Matched != 2 {
		t.Errorf("status %+v", status)
	}
	if len(status.Sources) != 1 || status.Sources[0].Lag == nil || report.Sources[0].Lag != nil {
		t.Errorf("sources %+v: a lag that is not known leaves the one that is recorded", status.Sources)
	}
	before := *status.DeepCopy()
	if applyReport(&status, report, metav1.Time{}); !equality.Semantic.DeepEqual(before, status) {
		t.Errorf("the same report is a change: %+v", status)
	}
	report.Conditions = append(report.Conditions, metav1.Condition{Type: engine.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "Missing"})
	applyReport(&status, report, metav1.Time{})
	if c := meta.FindStatusCondition(status.Conditions, engine.ConditionDrifted); c == nil || c.Reason != "Missing" {
		t.Errorf("what a rule that only looks has found is not there: %+v", status)
	}
}

// reportOf is a report with a condition Ready.
func reportOf(status metav1.ConditionStatus, reason string) engine.RuleReport {
	return engine.RuleReport{Conditions: []metav1.Condition{{Type: engine.ConditionReady, Status: status, Reason: reason}}}
}

// Timestamps in the API server are by its own clock.
func TestTimestampsAreByServerClock(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(-10 * agenttest.Year)
	r := rule("r", "", "1")
	w.reported("r", reportOf(metav1.ConditionTrue, "Synced"))
	w.NameClash("r", idB)
	w.fillStatus(r)
	if len(r.Status.Conditions) != 2 {
		t.Errorf("conditions: %v", r.Status.Conditions)
	}
	for _, c := range r.Status.Conditions {
		if at := c.LastTransitionTime.Time; !at.Equal(w.now) {
			t.Errorf("%s is dated %v, and the API server says %v", c.Type, at, w.now)
		}
	}
}

// The condition NameClash is independent of the engine's report, and goes when the other rule goes.
func TestNameClash(t *testing.T) {
	w := newWorld(t)
	w.put(t, agenttest.Cluster("b", idB))
	r := rule("r", "", "1")
	if w.fillStatus(r); len(r.Status.Conditions) > 0 {
		t.Errorf("before anything is known it has conditions: %v", r.Status.Conditions)
	}
	w.NameClash("r", idB)
	w.fillStatus(r)
	if c := meta.FindStatusCondition(r.Status.Conditions, conditionNameClash); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "cluster b has") {
		t.Errorf("the condition is %v", c)
	}
	before := r.Status.DeepCopy()
	w.now = w.now.Add(time.Hour)
	if w.fillStatus(r); !equality.Semantic.DeepEqual(*before, r.Status) {
		t.Errorf("the same again is a change: %v", r.Status.Conditions)
	}
	w.NameClash("r", "")
	w.reported("r", reportOf(metav1.ConditionTrue, "Synced"))
	if w.fillStatus(r); len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Type != engine.ConditionReady {
		t.Errorf("after the clash: %v", r.Status.Conditions)
	}
}

// The status of an orphan says what to do, and differs from that of a rule that somebody has paused.
func TestOrphanStatusSaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	r := rule("r", idB, "1")
	r.Annotations[v1alpha1.AnnotationOrphaned] = "true"
	w.reported("r", reportOf(metav1.ConditionFalse, problem.ReasonPaused))
	w.fillStatus(r)
	if c := r.Status.Conditions[0]; c.Reason != "Orphaned" || !strings.Contains(c.Message, "agentctl orphans adopt rsr/r") {
		t.Errorf("the condition is %v", c)
	}
	own := rule("r", "", "1")
	if w.fillStatus(own); own.Status.Conditions[0].Reason != problem.ReasonPaused {
		t.Errorf("a paused rule is %v", own.Status.Conditions[0])
	}
}

// A deleted rule is forgotten, and its last events are recorded on this cluster's Cluster object.
func TestDeletedRule(t *testing.T) {
	w := newWorld(t)
	r := rule("r", "", "1")
	w.put(t, r)
	w.event("r", engine.Event{Reason: "First"})
	w.drop(t, r)
	w.event("r", engine.Event{Reason: "Lost"})
	w.own = agenttest.Cluster("a", idA)
	w.event("r", engine.Event{Reason: "Last", Warning: true})
	if want := []string{"First of r", "Last of a"}; !slices.Equal(w.events, want) {
		t.Errorf("events %v, want %v", w.events, want)
	}
	w.reported("r", reportOf(metav1.ConditionTrue, "Synced"))
	w.NameClash("r", idB)
	if err := w.writeStatus(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	if _, known, clash := w.reports.read("r"); known || clash != "" {
		t.Error("a report of a rule that is gone is kept")
	}
}
