// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// reportOf is a report of which so much is said of empty sources, and so much of others.
func reportOf(empty, busy string) *Report {
	status := func(message string) v1alpha1.ResourceSyncRuleStatus {
		return v1alpha1.ResourceSyncRuleStatus{Conditions: []metav1.Condition{{Type: "Ready", Message: message}}}
	}
	return &Report{All: status(empty + busy), Busy: status(busy)}
}

// What is new of empty sources waits where there was too much of it, and anything else does not.
func TestEmptySourcesWait(t *testing.T) {
	t.Parallel()
	var s Sender
	now := time.Unix(0, 0)
	if !s.Send(reportOf("", "a"), now) || s.Send(reportOf("", "a"), now) {
		t.Error("the first report is not sent, or it is sent twice")
	}
	for n := range emptyReports {
		if !s.Send(reportOf(strconv.Itoa(n), "a"), now) {
			t.Errorf("report %d of empty sources waits", n)
		}
	}
	if s.Send(reportOf("x", "a"), now) {
		t.Error("one more does not wait")
	}
	if wait, due := s.Wait(0, now); !due || wait != emptyEvery {
		t.Errorf("it waits for %s, due: %v", wait, due)
	}
	if !s.Send(reportOf("x", "b"), now) {
		t.Error("something else is new, too, and it waits")
	}
	if _, due := s.Wait(0, now); due {
		t.Error("that was sent, and yet there is something to tell")
	}
	if s.Send(reportOf("y", "b"), now.Add(emptyEvery-time.Second)) || !s.Send(reportOf("y", "b"), now.Add(emptyEvery)) {
		t.Error("it waits for less than its time, or for longer")
	}
}

// Of empty sources that change every second for a day, one report is sent every five minutes, and in five more what they were at last. A rule
// whose report waits is not summed up more often than others.
func TestEmptySourcesAreReportedSeldom(t *testing.T) {
	t.Parallel()
	const day = 24 * 60 * 60
	var s Sender
	sent, summed, last := 0, 0, ""
	tick := func(second int, message string) {
		now := time.Unix(int64(second), 0)
		if wait, due := s.Wait(0, now); due && wait == 0 {
			summed++
			if s.Send(reportOf(message, ""), now) {
				sent, last = sent+1, message
			}
		}
	}
	for second := range day {
		s.Dirty = true
		tick(second, strconv.Itoa(second))
	}
	if want := day / int(emptyEvery/time.Second); sent < want || sent > want+emptyReports+1 || summed > day/2 {
		t.Errorf("%d reports in a day, and it was summed up %d times", sent, summed)
	}
	for second := range int(emptyEvery/time.Second) + 2 {
		tick(day+second, "the end")
	}
	if last != "the end" {
		t.Errorf("in the end the report still says %q", last)
	}
}

// The first report of a generation that says that a rule is Ready does not wait, however often its empty sources have changed. Of a new
// generation there are as many again.
func TestReadyDoesNotWait(t *testing.T) {
	t.Parallel()
	of := func(generation int64, n int, status metav1.ConditionStatus) *Report {
		r := reportOf(strconv.Itoa(n), "a")
		r.All.ObservedGeneration, r.Busy.ObservedGeneration, r.All.Conditions[0].Status = generation, generation, status
		return r
	}
	var s Sender
	now := time.Unix(0, 0)
	for generation := int64(1); generation < 3; generation++ {
		sent := 0
		for n := range 2 * emptyReports {
			if s.Send(of(generation, n, metav1.ConditionUnknown), now) {
				sent++
			}
		}
		if sent != emptyReports+1 {
			t.Errorf("generation %d: %d reports are sent", generation, sent)
		}
		if !s.Send(of(generation, 0, metav1.ConditionTrue), now) {
			t.Errorf("generation %d: that it is Ready waits", generation)
		}
		if s.Send(of(generation, 1, metav1.ConditionFalse), now) || s.Send(of(generation, 2, metav1.ConditionTrue), now) {
			t.Errorf("generation %d: so does it the second time", generation)
		}
	}
}

// The lag alone is not sent.
func TestLagAloneIsNotSent(t *testing.T) {
	t.Parallel()
	with := func(lag time.Duration) *Report {
		status := v1alpha1.ResourceSyncRuleStatus{Sources: []v1alpha1.SourceStatus{{ClusterID: "a", Matched: 1, Lag: &metav1.Duration{Duration: lag}}}}
		return &Report{All: status, Busy: status}
	}
	var s Sender
	if !s.Send(with(1), time.Unix(0, 0)) || s.Send(with(2), time.Unix(9, 0)) || s.held {
		t.Error("the first report is not sent, or one with another lag")
	}
}
