// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What agents of schema 6 have of a rule whose fields they do not know: they decode spec alone, and ignore unknown fields.
// Newer ones have the whole rule.
func TestRuleWithNewFieldsIsPausedForOldAgents(t *testing.T) {
	rule := &v1alpha1.ResourceSyncRule{Spec: v1alpha1.ResourceSyncRuleSpec{
		GVK: v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}, Rules: []v1alpha1.SyncRule{{}}, RuleDeletionPolicy: v1alpha1.DeletionDelete,
	}}
	decode := func() (old v1alpha1.ResourceSyncRuleSpec, now *Rule) {
		t.Helper()
		data, err := EncodeRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Spec v1alpha1.ResourceSyncRuleSpec `json:"spec"`
		}
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		if now, err = DecodeRule(idA, "rule", data); err != nil {
			t.Fatal(err)
		}
		return p.Spec, now
	}
	rule.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}}
	old, now := decode()
	if diff := cmp.Diff(rule.Spec, old) + cmp.Diff(&Rule{Spec: rule.Spec}, now); diff != "" {
		t.Errorf("a rule with known fields only:\n%s", diff)
	}
	for name, set := range map[string]func(*v1alpha1.ResourceSyncRuleSpec){
		"targets.names":   func(s *v1alpha1.ResourceSyncRuleSpec) { s.Targets = &v1alpha1.ClusterSelector{Names: []string{"a"}} },
		"targets.regions": func(s *v1alpha1.ResourceSyncRuleSpec) { s.Targets = &v1alpha1.ClusterSelector{Regions: []string{"a"}} },
		"targets.version": func(s *v1alpha1.ResourceSyncRuleSpec) { s.Targets = &v1alpha1.ClusterSelector{Version: ">1.34"} },
		"targets.providers": func(s *v1alpha1.ResourceSyncRuleSpec) {
			s.Targets = &v1alpha1.ClusterSelector{Providers: []string{"a"}}
		},
	} {
		rule.Spec.Targets = nil
		set(&rule.Spec)
		old, now := decode()
		if diff := cmp.Diff(v1alpha1.ResourceSyncRuleSpec{GVK: rule.Spec.GVK, Paused: true}, old) + cmp.Diff(&Rule{Spec: rule.Spec}, now); diff != "" {
			t.Errorf("a rule with %s:\n%s", name, diff)
		}
	}
}

// A rule with a field that this agent does not know is kept as a stub, which names the field, and is whole again when the
// field is gone or known.
func TestRuleWithUnknownFields(t *testing.T) {
	secret := v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}
	stub := v1alpha1.ResourceSyncRuleSpec{GVK: secret, Paused: true}
	for name, test := range map[string]struct {
		payload, notUnderstood string
		spec                   v1alpha1.ResourceSyncRuleSpec
	}{
		"all known":                {`{"labels":{"a":"b"},"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"createNamespace":true}}`, "", v1alpha1.ResourceSyncRuleSpec{GVK: secret, CreateNamespace: true}},
		"whole beside a stub":      {`{"labels":{"a":"b"},"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"paused":true},"rule":{"groupVersionKind":{"version":"v1","kind":"Secret"},"createNamespace":true}}`, "", v1alpha1.ResourceSyncRuleSpec{GVK: secret, CreateNamespace: true}},
		"unknown in the spec":      {`{"labels":{"a":"b"},"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"future":1,"rules":[{}]}}`, "spec.future", stub},
		"unknown in the whole":     {`{"labels":{"a":"b"},"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"paused":true},"rule":{"groupVersionKind":{"version":"v1","kind":"Secret"},"targets":{"moons":[]}}}`, "spec.targets.moons", stub},
		"unknown beside the spec":  {`{"labels":{"a":"b"},"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"rules":[{}]},"future":{}}`, "future", stub},
		"a name with a line break": {`{"labels":{"a":"b"},"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"x\ny":1}}`, `spec.x\ny`, stub},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := DecodeRule(idA, "rule", []byte(test.payload))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&Rule{Meta: Meta{Labels: map[string]string{"a": "b"}}, Spec: test.spec, NotUnderstood: test.notUnderstood}, p); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			have := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationNotUnderstood: "spec.old"}}}
			p.Fill(have, idA)
			if mark := have.Annotations[v1alpha1.AnnotationNotUnderstood]; mark != test.notUnderstood || Has(have, v1alpha1.AnnotationNotUnderstood) != (test.notUnderstood != "") {
				t.Errorf("the copy has the mark %q", mark)
			}
		})
	}
}
