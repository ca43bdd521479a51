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
