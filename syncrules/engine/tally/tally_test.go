// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	a = "aaaaaaaa-0000-0000-0000-000000000000"
	b = "bbbbbbbb-0000-0000-0000-000000000000"
)

func cm(name string) place.Key {
	return place.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: name}
}

func failed(i int, reason string) *Result {
	return &Result{State: Failed, Reason: reason, Text: fmt.Sprintf("x%d: no", i), Rules: []string{"r"}, Offers: []Offer{{Origin: a, Rules: []string{"r"}}}}
}

// A reason is told whether or not anything was counted for a source before.
func TestTallyKeepsTheFirstReason(t *testing.T) {
	var sum Tally
	first := &Result{State: Failed, Reason: "AdmissionRefused", Text: "x: no", Rules: []string{"r"}}
	sum.Add(cm("x"), "r", first, 1)
	other := &Result{State: Synced, Owner: a, Rules: []string{"r"}, Offers: []Offer{{Origin: a, Rules: []string{"r"}}}}
	sum.Add(cm("y"), "r", other, 1)
	if sum.Reasons["AdmissionRefused"] != 1 {
		t.Errorf("reasons %v", sum.Reasons)
	}
	sum.Add(cm("x"), "r", first, -1)
	if len(sum.Reasons) != 0 || sum.Failed != 0 {
		t.Errorf("reasons %v", sum.Reasons)
	}
}

func TestTallyCountsEachSource(t *testing.T) {
	var sum Tally
	rules := []string{"r"}
	shared := &Result{State: Synced, Owner: a, Rules: rules, Offers: []Offer{{Origin: a, Rules: rules}, {Origin: b, Rules: rules}}}
	surplus := &Result{State: Synced, Owner: b, Rules: rules, Offers: []Offer{{Origin: b, Rules: rules}, {Origin: a, Rules: rules, Surplus: true}}, Conflict: true}
	elsewhere := &Result{State: Failed, Rules: rules, Offers: []Offer{{Origin: a, Rules: []string{"another"}}}}
	sum.Add(cm("x"), "r", shared, 1)
	sum.Add(cm("y"), "r", surplus, 1)
	sum.Add(cm("z"), "r", elsewhere, 1)
	if sum.Matched != 4 || sum.Synced != 2 || sum.Failed != 1 || sum.Conflicts != 1 {
		t.Errorf("sum %+v", sum)
	}
	if got := *sum.Source(a); got != (SourceTally{Matched: 2, Synced: 1}) {
		t.Errorf("a has %+v", got)
	}
	if got := *sum.Source(b); got != (SourceTally{Matched: 2, Synced: 1}) {
		t.Errorf("b has %+v", got)
	}
}

// Of more texts than are kept those of each reason are, and what is taken away makes room.
func TestTexts(t *testing.T) {
	var sum Tally
	for i := range MaxErrors + 1 {
		sum.Add(cm(fmt.Sprint(i)), "r", failed(i, "Often"), 1)
	}
	if len(sum.Texts) != MaxErrors || sum.Texts[0].Key != cm(fmt.Sprint(MaxErrors)) {
		t.Errorf("%d texts, first %+v", len(sum.Texts), sum.Texts[0])
	}
	if sum.Tell(cm("0"), failed(0, "Often")) {
		t.Error("there is no room")
	}
	if !sum.Tell(cm("rare"), failed(1, "Rare")) || len(sum.Texts) != MaxErrors || sum.Texts[MaxErrors-1].Reason != "Rare" {
		t.Errorf("one of another reason is not told: %+v", sum.Texts)
	}
	sum.Add(cm("5"), "r", failed(5, "Often"), -1)
	if !sum.Tell(cm("0"), failed(0, "Often")) {
		t.Error("there is room")
	}
}

func TestSameResult(t *testing.T) {
	if !failed(1, "x").Same(failed(1, "x")) {
		t.Error("it fails again, which is no news")
	}
	other := failed(1, "x")
	other.Offers[0].Surplus = true
	if failed(1, "x").Same(other) {
		t.Error("it is surplus now")
	}
}

func TestEventsSumUp(t *testing.T) {
	var e Events
	now := time.Now()
	exists := func(rule string) bool { return rule == "r" }
	e.Add([]string{"r", "s"}, EventReconciled, "x", now)
	e.Add([]string{"r"}, EventReconciled, "y", now)
	due, next := e.Due(now, exists)
	if len(due) > 0 || next != eventCalm {
		t.Errorf("at once: %+v, next in %s", due, next)
	}
	now = now.Add(eventCalm)
	due, next = e.Due(now, exists)
	want := []RuleEvent{
		{"r", Event{Reason: EventReconciled, Message: "2 objects brought up to date, such as x"}},
		{"s", Event{Reason: EventReconciled, Message: "1 object brought up to date: x"}},
	}
	if !reflect.DeepEqual(due, want) || next != 0 {
		t.Errorf("%+v, next in %s", due, next)
	}
	e.Add([]string{"r"}, EventReconciled, "z", now)
	e.Add([]string{"r"}, EventNotReconciled, "z: no", now)
	due, next = e.Due(now.Add(eventCalm), exists)
	if len(due) != 1 || due[0].Reason != EventNotReconciled || !due[0].Warning || !strings.Contains(due[0].Message, "z: no") {
		t.Errorf("%+v", due)
	}
	if next != EventInterval-eventCalm {
		t.Errorf("the next is in %s", next)
	}
	e.Due(now.Add(EventInterval), exists)
	e.Due(now.Add(2*EventInterval), exists)
	if len(e.counts) != 2 {
		t.Errorf("%d counts are kept, those of a rule that is gone among them", len(e.counts))
	}
}
