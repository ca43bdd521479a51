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

func reportOf(reason, message string, sources ...v1alpha1.SourceStatus) *v1alpha1.ResourceSyncRuleStatus {
	return &v1alpha1.ResourceSyncRuleStatus{Sources: sources, Conditions: []metav1.Condition{{Type: "Ready", Reason: reason, Message: message}}}
}

func stranger(message string) v1alpha1.SourceStatus {
	return v1alpha1.SourceStatus{ClusterID: "a", Message: message}
}

// What differs in sources alone of which there is nothing is sent once, and then it waits. Whatever else there is does not.
func TestStrangersWait(t *testing.T) {
	t.Parallel()
	copied, watched := stranger("x"), stranger("x")
	copied.Matched, watched.Watching = 1, true
	old := func(s v1alpha1.SourceStatus) v1alpha1.SourceStatus { s.Message = "y"; return s }
	const away = ReasonSourceUnreachable
	for what, c := range map[string]struct {
		before, after *v1alpha1.ResourceSyncRuleStatus
		waits         bool
	}{
		"it is tried again":   {reportOf(away, "x", stranger("x")), reportOf(away, "y", stranger("y")), true},
		"one more":            {reportOf(away, "x"), reportOf(away, "x", stranger("x")), true},
		"it is reached":       {reportOf(away, "x", stranger("x")), reportOf(away, "x", watched), false},
		"another reason":      {reportOf(away, "x"), reportOf("MissingPermission", "x"), false},
		"another message":     {reportOf("MissingPermission", "x"), reportOf("MissingPermission", "y"), false},
		"one that has copies": {reportOf("Synced", "", copied), reportOf("Synced", "", old(copied)), false},
		"one that is watched": {reportOf("Synced", "", watched), reportOf("Synced", "", old(watched)), false},
		"the first report":    {nil, reportOf("Synced", "", watched), false},
	} {
		now := time.Unix(0, 0)
		s := Sender{Last: c.before, strangers: now, pause: strangersFirst}
		if sent := s.Send(c.after, now.Add(time.Second)); sent == c.waits || s.held != c.waits {
			t.Errorf("%s: sent: %v, held: %v", what, sent, s.held)
		}
	}
}

// Of strangers that change every second for a day, some 150 reports are sent, and the last of what they were in ten minutes. When they
// have been calm, the next change is sent at once.
func TestStrangersAreReportedLessAndLessOften(t *testing.T) {
	t.Parallel()
	var s Sender
	start := time.Unix(0, 0)
	s.Send(reportOf(ReasonSourceUnreachable, "", stranger("")), start)
	sent, last := 0, ""
	second := 0
	change := func(message string) {
		s.Dirty = true
		tick(&s, start.Add(time.Duration(second)*time.Second), message, &sent, &last)
	}
	for second = range 24 * 60 * 60 {
		change(strconv.Itoa(second))
		if second == 60 && sent < 4 {
			t.Errorf("%d reports in the first minute", sent)
		}
	}
	if sent < 24*6 || sent > 24*6+10 {
		t.Errorf("%d reports in a day", sent)
	}
	final := last
	for end := second + int(strangersMost/time.Second) + 1; second < end; second++ {
		tick(&s, start.Add(time.Duration(second)*time.Second), "the end", &sent, &last)
	}
	if last != "the end" {
		t.Errorf("after ten minutes the report still says %q, as before (%q)", last, final)
	}
	second += 2 * int(strangersMost/time.Second)
	before := sent
	change("again")
	second++
	change("again")
	if sent != before+1 || last != "again" || s.pause != strangersFirst {
		t.Errorf("after a calm a change is not sent at once: %d, %q, pause %s", sent-before, last, s.pause)
	}
}

// tick does what the engine does each time that it looks.
func tick(s *Sender, now time.Time, message string, sent *int, last *string) {
	if wait, due := s.Wait(0, now); due && wait == 0 && s.Send(reportOf(ReasonSourceUnreachable, message, stranger(message)), now) {
		*sent, *last = *sent+1, message
	}
}

// The lag alone is not sent.
func TestLagAloneIsNotSent(t *testing.T) {
	t.Parallel()
	with := func(lag time.Duration) *v1alpha1.ResourceSyncRuleStatus {
		return reportOf("Synced", "", v1alpha1.SourceStatus{ClusterID: "a", Watching: true, Lag: &metav1.Duration{Duration: lag}})
	}
	var s Sender
	if !s.Send(with(1), time.Unix(0, 0)) || s.Send(with(2), time.Unix(9, 0)) || s.held {
		t.Error("the first report is not sent, or one with another lag")
	}
}
