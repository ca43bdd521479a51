// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fanout

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func compile(s *metav1.LabelSelector, create bool) (*Selector, field.ErrorList) {
	spec := &v1alpha1.ResourceSyncRuleSpec{CreateNamespace: create}
	if s != nil {
		spec.TargetNamespaces = &v1alpha1.NamespaceSelector{LabelSelector: *s}
	}
	return Compile(field.NewPath("spec"), spec)
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	s, errs := compile(&metav1.LabelSelector{
		MatchLabels:      map[string]string{"team": "a"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "frozen", Operator: metav1.LabelSelectorOpDoesNotExist}},
	}, false)
	if len(errs) > 0 || s.String() != "!frozen,team=a" {
		t.Fatalf("%v, %s", errs, s)
	}
	for _, c := range []struct {
		ns   *Namespace
		want Answer
		text string
	}{
		{&Namespace{Labels: map[string]string{"team": "a", "x": "y"}}, Yes, "rule r: spec.targetNamespaces selects namespace n (!frozen,team=a)"},
		{&Namespace{Labels: map[string]string{"team": "b"}}, No, "rule r: spec.targetNamespaces (!frozen,team=a) does not select namespace n, which has team=b"},
		{&Namespace{Labels: map[string]string{"team": "a", "frozen": ""}}, No, "rule r: spec.targetNamespaces (!frozen,team=a) does not select namespace n, which has frozen="},
		{&Namespace{}, No, "rule r: spec.targetNamespaces (!frozen,team=a) does not select namespace n, which has no label team"},
		{&Namespace{Labels: map[string]string{"team": "a"}, Ends: true}, Unknown, "namespace n is being deleted"},
		{nil, Unknown, "the labels of namespace n are not known"},
	} {
		if got := s.Weigh(c.ns); got != c.want {
			t.Errorf("%+v: %d, want %d", c.ns, got, c.want)
		}
		if got := s.Explain("r", "n", c.ns); got != c.text {
			t.Errorf("%+v: %q, want %q", c.ns, got, c.text)
		}
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range maxRequirements + 1 {
		many["k"+strconv.Itoa(i)] = strings.Repeat("v", 63)
	}
	for _, c := range []struct {
		selector *metav1.LabelSelector
		create   bool
		want     string
	}{
		{nil, true, ""},
		{&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, false, ""},
		{&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, true, "spec.createNamespace: Forbidden"},
		{&metav1.LabelSelector{}, false, "spec.targetNamespaces: Required"},
		{&metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}, false, "spec.targetNamespaces: Invalid"},
		{&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}, false, "spec.targetNamespaces: Invalid"},
		{&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}, false, "spec.targetNamespaces: Invalid"},
		{&metav1.LabelSelector{MatchLabels: many}, false, "spec.targetNamespaces: Too many"},
	} {
		s, errs := compile(c.selector, c.create)
		if (len(errs) == 0) != (c.want == "") || c.want != "" && !strings.HasPrefix(errs[0].Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.selector, errs, c.want)
		}
		if (s == nil) != (c.selector == nil) && len(errs) == 0 {
			t.Errorf("%+v is compiled to %v", c.selector, s)
		}
	}
	delete(many, "k0")
	if s, errs := compile(&metav1.LabelSelector{MatchLabels: many}, false); len(errs) > 0 || len(s.String()) > maxText+len("…") {
		t.Errorf("%v, %d bytes", errs, len(s.String()))
	}
}
