// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func configMap(value, owner string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"data": map[string]any{"v": value},
	}}
	if owner != "" {
		obj.SetAnnotations(map[string]string{v1alpha1.AnnotationOwnerClusterID: owner, v1alpha1.AnnotationRule: "r"})
		obj.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: owner})
	}
	return obj
}

// What Plan decides is read: it is the same code that acts for other rules.
func TestOf(t *testing.T) {
	t.Parallel()
	offered := syncrules.Claim{Origin: "a", Standing: syncrules.Offered, Desired: configMap("1", "a")}
	gone := syncrules.Claim{Origin: "a", Standing: syncrules.Gone, Policy: v1alpha1.DeletionDelete, Reason: "its source is gone"}
	let := syncrules.Claim{Origin: "a", Standing: syncrules.Released, Policy: v1alpha1.DeletionOrphan, Reason: "the rule was edited"}
	mortal := configMap("1", "a")
	mortal.SetAnnotations(map[string]string{
		v1alpha1.AnnotationOwnerClusterID: "a", v1alpha1.AnnotationRule: "r", v1alpha1.AnnotationRuleDeletionPolicy: "Delete",
	})
	unruled := configMap("1", "a")
	unruled.SetAnnotations(map[string]string{v1alpha1.AnnotationOwnerClusterID: "a"})
	for name, c := range map[string]struct {
		local *unstructured.Unstructured
		claim syncrules.Claim
		want  Kind
		text  string
	}{
		"missing":          {nil, offered, Missing, "is missing, and would be created"},
		"the same":         {configMap("1", "a"), offered, None, ""},
		"different":        {configMap("2", "a"), offered, Differs, "differs, and would be changed"},
		"only other marks": {unruled, offered, None, ""},
		"to be kept now":   {mortal, offered, Mortal, "still carries ruleDeletionPolicy Delete: it is deleted if the rule is, unless the rule writes before"},
		"not kept now":     {configMap("1", "a"), syncrules.Claim{Origin: "a", Standing: syncrules.Offered, Desired: mortal}, None, ""},
		"extra":            {configMap("1", "a"), gone, Extra, "would be deleted: its source is gone"},
		"an orphan":        {configMap("1", "a"), let, Extra, "would be left as an orphan: the rule was edited"},
		"not known":        {configMap("2", "a"), syncrules.Claim{Origin: "a"}, None, ""},
		"of this cluster":  {configMap("2", ""), offered, None, ""},
	} {
		d := syncrules.Plan(syncrules.Facts{Self: "here", Local: c.local, Claims: []syncrules.Claim{c.claim}})
		if got := Of(d, c.local); got != c.want || got.Text(d) != c.text {
			t.Errorf("%s: %q, %q, after %s", name, got, got.Text(d), d.Action)
		}
	}
}

func TestSum(t *testing.T) {
	t.Parallel()
	if most, text := Sum(nil); most != None || text != "" {
		t.Errorf("of nothing: %q, %q", most, text)
	}
	most, text := Sum(map[Kind]int32{Missing: 2, Differs: 7, Extra: 2})
	if want := "7 different, 2 to be deleted or left as orphans, 2 missing"; most != Differs || text != want {
		t.Errorf("%q, %q; want %q", most, text, want)
	}
}
