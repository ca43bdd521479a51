// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

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
