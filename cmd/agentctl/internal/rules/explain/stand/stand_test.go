// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func TestLook(t *testing.T) {
	t.Parallel()
	held := syncrules.Facts{Claims: []syncrules.Claim{{Origin: "a", Standing: syncrules.Held, Reason: "it is withdrawn"}}}
	for _, c := range []struct {
		facts syncrules.Facts
		d     syncrules.Decision
		want  string
	}{
		{syncrules.Facts{}, syncrules.Decision{Action: syncrules.Create}, "is missing, and would be created"},
		{held, syncrules.Decision{}, "would not be copied: it is withdrawn"},
		{syncrules.Facts{}, syncrules.Decision{Action: syncrules.Conflict, Reason: "it is taken"}, "would be left alone: it is taken"},
		{syncrules.Facts{}, syncrules.Decision{}, "is as the rule would have it"},
	} {
		if got := Look(c.facts, c.d); got != c.want {
			t.Errorf("%+v: %q, want %q", c.d, got, c.want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	copied := &unstructured.Unstructured{}
	copied.SetAnnotations(map[string]string{v1alpha1.AnnotationOwnerClusterID: "a"})
	silent := syncrules.Facts{Local: copied, Claims: []syncrules.Claim{{Origin: "a", Standing: syncrules.Unknown}}}
	held := syncrules.Facts{Claims: []syncrules.Claim{{Origin: "a", Standing: syncrules.Held}}}
	for _, c := range []struct {
		action syncrules.Action
		facts  syncrules.Facts
		want   string
		back   bool
	}{
		{syncrules.Create, syncrules.Facts{}, Pending, false},
		{syncrules.Delete, silent, Gone, false},
		{syncrules.Conflict, silent, Blocked, false},
		{syncrules.Freeze, silent, Unknown, false},
		{syncrules.Freeze, held, Blocked, false},
		{syncrules.None, silent, InSync, false},
		{syncrules.None, held, None, true},
	} {
		d := syncrules.Decision{Action: c.action, Owner: "a"}
		if got := Of(d, c.facts); got != c.want || (HeldBack(c.facts, d) != nil) != c.back {
			t.Errorf("%s: %s, want %s; held back %t", c.action, got, c.want, !c.back)
		}
	}
}
