// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestDebouncer(t *testing.T) {
	var d debouncer
	at := time.Unix(1000, 0)
	if wait := d.wait(agenttest.IDA, "a", false, at); wait != debounceFor {
		t.Errorf("a state that was not seen before waits %v, want %v", wait, debounceFor)
	}
	if wait := d.wait(agenttest.IDA, "a", false, at.Add(debounceFor/3)); wait != debounceFor-debounceFor/3 {
		t.Errorf("after a third of the time it waits %v", wait)
	}
	if wait := d.wait(agenttest.IDB, "b", true, at); wait != 0 {
		t.Errorf("a state that lasts waits %v", wait)
	}
	if wait := d.wait(agenttest.IDA, "a", false, at.Add(debounceFor)); wait != 0 {
		t.Errorf("a state that stayed waits %v", wait)
	}
	if wait := d.wait(agenttest.IDA, "a", false, at.Add(debounceFor)); wait != 0 {
		t.Errorf("what could not be written waits %v again", wait)
	}
	d.forget(agenttest.IDA, "a")
	if wait := d.wait(agenttest.IDA, "a", false, at.Add(debounceFor)); wait != debounceFor {
		t.Errorf("the next one waits %v, want %v", wait, debounceFor)
	}
}

// A state that lasts is written at once, but no more often than others; what an object is not there for is not remembered.
func TestLastingStatesAreDebounced(t *testing.T) {
	var d debouncer
	at := time.Unix(1000, 0)
	d.written(agenttest.IDA, "a", at)
	if wait := d.wait(agenttest.IDA, "a", true, at.Add(debounceFor/4)); wait != debounceFor-debounceFor/4 {
		t.Errorf("a quarter of the time after it was written, one that lasts waits %v", wait)
	}
	if wait := d.wait(agenttest.IDA, "a", true, at.Add(debounceFor)); wait != 0 {
		t.Errorf("after that time it waits %v", wait)
	}
	d.wait(agenttest.IDA, "its former name", false, at)
	d.keep(agenttest.IDA, []*v1alpha1.Cluster{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}})
	if len(d.seen[agenttest.IDA]) != 1 {
		t.Errorf("remembered of an object that is not there: %v", d.seen)
	}
	if d.keep(agenttest.IDA, nil); len(d.seen) != 0 {
		t.Errorf("remembered of a cluster that is not there: %v", d.seen)
	}
}

// Who admits a cluster changes every second, since a member signs and takes back: it is written at once, and then less and less often,
// whatever else is written meanwhile. When it was quiet for long, the next change is written at once again.
func TestAdmissionsAreWrittenSeldom(t *testing.T) {
	var d debouncer
	at := time.Unix(1000, 0)
	flips := func(seconds int) (written int) {
		for range seconds {
			if d.admission(agenttest.IDA, "a", at) == 0 {
				d.written(agenttest.IDA, "a", at)
				d.admissionWritten(agenttest.IDA, "a", at)
				written++
			}
			d.wait(agenttest.IDA, "a", false, at)
			d.forget(agenttest.IDA, "a")
			d.written(agenttest.IDA, "a", at)
			at = at.Add(time.Second)
		}
		return written
	}
	if n := flips(1); n != 1 {
		t.Errorf("the first is written %d times", n)
	}
	if n := flips(600); n < 8 || n > 10 {
		t.Errorf("in ten minutes it is written %d times", n)
	}
	if n := flips(6000); n < 9 || n > 11 {
		t.Errorf("in a hundred more minutes it is written %d times", n)
	}
	if at = at.Add(2*longestPause + time.Second); flips(2) != 2 {
		t.Error("after it was quiet for long it waits")
	}
}

func TestEventCondition(t *testing.T) {
	type is map[string]metav1.ConditionStatus
	for _, tt := range []struct {
		name        string
		before, now is
		want        string
	}{
		{"a cluster joins", is{}, is{"Member": "True", "Ready": "True", "ClustersSynced": "True", "LocalConflict": "False"}, "ClustersSyncedTrue"},
		{"it is connecting", is{}, is{"Member": "Unknown", "Ready": "Unknown", "ClustersSynced": "Unknown"}, ""},
		{"its agent is met", is{"Member": "Unknown", "Ready": "Unknown"}, is{"Member": "True", "Ready": "Unknown"}, "MemberTrue"},
		{"it is lost", is{"Member": "True", "Ready": "True", "ClustersSynced": "True"}, is{"Member": "Unknown", "Ready": "Unknown", "ClustersSynced": "Unknown"}, "ReadyUnknown"},
		{"it returns", is{"Member": "False", "Ready": "False", "ClustersSynced": "False"}, is{"Member": "True", "Ready": "True", "ClustersSynced": "True"}, "ClustersSyncedTrue"},
		{"it has a rival", is{"LocalConflict": "False", "Ready": "True"}, is{"LocalConflict": "True", "Ready": "True"}, "LocalConflictTrue"},
		{"the rival is gone", is{"LocalConflict": "True"}, is{"LocalConflict": "False"}, "LocalConflictFalse"},
		{"nothing new", is{"Ready": "True"}, is{"Ready": "True", "ClusterMetadataSet": "True", "LocalCluster": "True"}, ""},
	} {
		conditions := func(of is) (out []metav1.Condition) {
			for kind, status := range of {
				out = append(out, metav1.Condition{Type: kind, Status: status})
			}
			return out
		}
		got := ""
		if c := eventCondition(conditions(tt.before), conditions(tt.now)); c != nil {
			got = c.Type + string(c.Status)
		}
		if got != tt.want {
			t.Errorf("%s: event for %q, want %q", tt.name, got, tt.want)
		}
	}
	if v := (&View{Local: true}); v.lasting() {
		t.Error("a view without anything lasts")
	}
}
