// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package how

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec v1alpha1.ResourceSyncRuleSpec
		want Manner
		err  string
		text string
	}{
		{},
		{spec: v1alpha1.ResourceSyncRuleSpec{Mode: v1alpha1.ModeSync}},
		{spec: v1alpha1.ResourceSyncRuleSpec{Mode: v1alpha1.ModeObserve}, want: Manner{Observes: true}, text: "rule r only observes (spec.mode)"},
		{spec: v1alpha1.ResourceSyncRuleSpec{ConflictPolicy: v1alpha1.ConflictLeave}},
		{spec: v1alpha1.ResourceSyncRuleSpec{ConflictPolicy: v1alpha1.ConflictAdopt}, want: Manner{Adopts: true}},
		{spec: v1alpha1.ResourceSyncRuleSpec{ConflictPolicy: "Take"}, err: `spec.conflictPolicy: Unsupported value: "Take": supported values: "Leave", "Adopt"`},
		{spec: v1alpha1.ResourceSyncRuleSpec{Mode: "observe"}, err: `spec.mode: Unsupported value: "observe": supported values: "Sync", "Observe"`},
	} {
		got, errs := Compile(field.NewPath("spec"), &c.spec)
		if got != c.want || got.ObservesText("r") != c.text {
			t.Errorf("%+v: %+v, %q", c.spec, got, got.ObservesText("r"))
		}
		text := ""
		if err := errs.ToAggregate(); err != nil {
			text = err.Error()
		}
		if text != c.err {
			t.Errorf("%+v: error %q, want %q", c.spec, text, c.err)
		}
	}
}
