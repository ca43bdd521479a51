// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		want    copyPlan
		origin  string
	}{
		"nothing known":                       {want: copyKeep},
		"first copy, smallest clusterID wins": {entries: []replica.Entry{entry(idB, replica.Live), entry(idC, replica.Live)}, want: copyWrite, origin: idB},
		"first copy skips the withdrawn":      {entries: []replica.Entry{entry(idB, replica.Withdrawn), entry(idC, replica.Live)}, want: copyWrite, origin: idC},
		"withdrawn makes no copy":             {entries: []replica.Entry{entry(idB, replica.Withdrawn)}, want: copyKeep},
		"own entry makes no copy":             {entries: []replica.Entry{entry(idA, replica.Live)}, want: copyKeep},
		"local object alone":                  {have: rule(""), entries: []replica.Entry{entry(idA, replica.Live)}, want: copyKeep},
		"local object is never overwritten":   {have: rule(""), entries: []replica.Entry{entry(idB, replica.Live)}, want: copyConflict, origin: idB},
		"copy follows its owner":              {have: rule(idC), entries: []replica.Entry{entry(idB, replica.Live), entry(idC, replica.Live)}, want: copyWrite, origin: idC},
		"withdrawn copy stays":                {have: rule(idC), entries: []replica.Entry{entry(idC, replica.Withdrawn)}, want: copyKeep},
		"withdrawn copy is not taken over":    {have: rule(idC), entries: []replica.Entry{entry(idB, replica.Live), entry(idC, replica.Withdrawn)}, want: copyKeep},
		"owner unknown: the copy stays":       {have: rule(idC), want: copyKeep},
		"owner unknown, another has one":      {have: rule(idC), entries: []replica.Entry{entry(idB, replica.Live)}, want: copyKeep},
		"proven gone":                         {have: rule(idC), absent: true, want: copyDelete},
		"proven gone, another has one":        {have: rule(idC), entries: []replica.Entry{entry(idB, replica.Live)}, absent: true, want: copyDelete},
		"owner gone":                          {have: rule(idC), gone: true, absent: true, want: copyOrphan},
		"owner gone, an orphan already":       {have: rule(idC, v1alpha1.AnnotationOrphaned), gone: true, want: copyKeep},
		"owner gone, another has the same":    {have: rule(idC), entries: []replica.Entry{entry(idB, replica.Live)}, gone: true, want: copyWrite, origin: idB},
		"owner gone, switched off":            {have: rule(idC, v1alpha1.AnnotationSyncDisabled), gone: true, want: copyKeep},
		"orphan of one who is back":           {have: rule(idC, v1alpha1.AnnotationOrphaned), entries: []replica.Entry{entry(idC, replica.Live)}, want: copyWrite, origin: idC},
		"orphan is not deleted":               {have: rule(idC, v1alpha1.AnnotationOrphaned), absent: true, want: copyKeep},
		"switched off on the copy":            {have: rule(idC, v1alpha1.AnnotationSyncDisabled), entries: []replica.Entry{entry(idC, replica.Live)}, want: copyKeep},
		"switched off on a copy that is gone": {have: rule(idC, v1alpha1.AnnotationSyncDisabled), absent: true, want: copyKeep},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			plan, e := planCopy(idA, tt.have, tt.entries, func(k replica.Key, origin string) bool {
				return tt.absent && origin == idC && k.Name == "r"
			}, func(id string) bool { return tt.gone && id == idC })
			if plan != tt.want || e.Origin != tt.origin {
				t.Errorf("plan %d from %q, want %d from %q", plan, e.Origin, tt.want, tt.origin)
			}
		})
	}
}
