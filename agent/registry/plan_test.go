// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

func TestPlanCopy(t *testing.T) {
	rule := func(owner string, annotations ...string) *v1alpha1.ResourceSyncRule {
		r := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: map[string]string{}}}
		if owner != "" {
			r.Annotations[v1alpha1.AnnotationOwnerClusterID] = owner
		}
		for _, a := range annotations {
			r.Annotations[a] = ""
		}
		return r
	}
	entry := func(origin string, status replica.Status) replica.Entry {
		return replica.Entry{Key: replica.Key{Kind: replica.KindRule, Name: "r"}, Origin: origin, Status: status, Payload: []byte("{}")}
	}
	tests := map[string]struct {
		have    *v1alpha1.ResourceSyncRule
		entries []replica.Entry
		absent  bool
		gone    bool // C is not in the group any more
		refused bool // the rules of C are not in force here
		want    copyPlan
		origin  string
	}{
		"nothing known":                       {want: copyKeep},
		"first copy, smallest clusterID wins": {entries: []replica.Entry{entry(agenttest.IDB, replica.Live), entry(agenttest.IDC, replica.Live)}, want: copyWrite, origin: agenttest.IDB},
		"first copy skips the withdrawn":      {entries: []replica.Entry{entry(agenttest.IDB, replica.Withdrawn), entry(agenttest.IDC, replica.Live)}, want: copyWrite, origin: agenttest.IDC},
		"withdrawn makes no copy":             {entries: []replica.Entry{entry(agenttest.IDB, replica.Withdrawn)}, want: copyKeep},
		"own entry makes no copy":             {entries: []replica.Entry{entry(agenttest.IDA, replica.Live)}, want: copyKeep},
		"local object alone":                  {have: rule(""), entries: []replica.Entry{entry(agenttest.IDA, replica.Live)}, want: copyKeep},
		"local object is never overwritten":   {have: rule(""), entries: []replica.Entry{entry(agenttest.IDB, replica.Live)}, want: copyConflict, origin: agenttest.IDB},
		"copy follows its owner":              {have: rule(agenttest.IDC), entries: []replica.Entry{entry(agenttest.IDB, replica.Live), entry(agenttest.IDC, replica.Live)}, want: copyWrite, origin: agenttest.IDC},
		"withdrawn copy stays":                {have: rule(agenttest.IDC), entries: []replica.Entry{entry(agenttest.IDC, replica.Withdrawn)}, want: copyKeep},
		"withdrawn copy is not taken over":    {have: rule(agenttest.IDC), entries: []replica.Entry{entry(agenttest.IDB, replica.Live), entry(agenttest.IDC, replica.Withdrawn)}, want: copyKeep},
		"owner unknown: the copy stays":       {have: rule(agenttest.IDC), want: copyKeep},
		"owner unknown, another has one":      {have: rule(agenttest.IDC), entries: []replica.Entry{entry(agenttest.IDB, replica.Live)}, want: copyKeep},
		"proven gone":                         {have: rule(agenttest.IDC), absent: true, want: copyDelete},
		"proven gone, another has one":        {have: rule(agenttest.IDC), entries: []replica.Entry{entry(agenttest.IDB, replica.Live)}, absent: true, want: copyDelete},
		"proven gone, not accepted":           {have: rule(agenttest.IDC), absent: true, refused: true, want: copyOrphan},
		"proven gone, orphaned for that":      {have: rule(agenttest.IDC, v1alpha1.AnnotationOrphaned), absent: true, refused: true, want: copyKeep},
		"owner gone":                          {have: rule(agenttest.IDC), gone: true, absent: true, want: copyOrphan},
		"owner gone, an orphan already":       {have: rule(agenttest.IDC, v1alpha1.AnnotationOrphaned), gone: true, want: copyKeep},
		"owner gone, another has the same":    {have: rule(agenttest.IDC), entries: []replica.Entry{entry(agenttest.IDB, replica.Live)}, gone: true, want: copyWrite, origin: agenttest.IDB},
		"owner gone, only a stub is here":     {have: rule(agenttest.IDC, v1alpha1.AnnotationNotUnderstood), entries: []replica.Entry{entry(agenttest.IDB, replica.Live)}, gone: true, want: copyOrphan},
		"owner gone, switched off":            {have: rule(agenttest.IDC, v1alpha1.AnnotationSyncDisabled), gone: true, want: copyKeep},
		"orphan of one who is back":           {have: rule(agenttest.IDC, v1alpha1.AnnotationOrphaned), entries: []replica.Entry{entry(agenttest.IDC, replica.Live)}, want: copyWrite, origin: agenttest.IDC},
		"orphan is not deleted":               {have: rule(agenttest.IDC, v1alpha1.AnnotationOrphaned), absent: true, want: copyKeep},
		"switched off on the copy":            {have: rule(agenttest.IDC, v1alpha1.AnnotationSyncDisabled), entries: []replica.Entry{entry(agenttest.IDC, replica.Live)}, want: copyKeep},
		"switched off on a copy that is gone": {have: rule(agenttest.IDC, v1alpha1.AnnotationSyncDisabled), absent: true, want: copyKeep},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			plan, e := planCopy(agenttest.IDA, tt.have, tt.entries, func(k replica.Key, origin string) bool {
				return tt.absent && origin == agenttest.IDC && k.Name == "r"
			}, func(id string) bool { return tt.gone && id == agenttest.IDC }, func(id string) bool { return !tt.refused || id != agenttest.IDC })
			if plan != tt.want || e.Origin != tt.origin {
				t.Errorf("plan %d from %q, want %d from %q", plan, e.Origin, tt.want, tt.origin)
			}
		})
	}
}
