// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fanout

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Bounds of a selector. The CRD has the first, too.
const (
	maxRequirements = 64
	maxText         = 512 // bytes of what it says for people
)

// Answer says whether copies are wanted in a namespace.
type Answer uint8

const (
	// Unknown means that the namespace is not known, or is being deleted.
	Unknown Answer = iota
	// No means that it is not selected.
	No
	// Yes means that it is selected.
	Yes
)

// Namespace is what matters of a namespace.
type Namespace struct {
	Labels map[string]string
	// Ends says that it is being deleted.
	Ends bool
}

// Selector is a compiled spec.targetNamespaces. It is immutable.
type Selector struct {
	selector labels.Selector
	text     string
}

// Compile compiles the field of a rule; nil where the rule has none. path is that of the spec, for errors.
func Compile(path *field.Path, spec *v1alpha1.ResourceSyncRuleSpec) (*Selector, field.ErrorList) {
	s := spec.TargetNamespaces
	if s == nil {
		return nil, nil
	}
	at := path.Child("targetNamespaces")
	var errs field.ErrorList
	switch n := len(s.MatchLabels) + len(s.MatchExpressions); {
	case n == 0:
		errs = append(errs, field.Required(at, "must select by matchLabels or matchExpressions"))
	case n > maxRequirements:
		return nil, append(errs, field.TooMany(at, n, maxRequirements))
	}
	if spec.CreateNamespace {
		errs = append(errs, field.Forbidden(path.Child("createNamespace"), "targetNamespaces selects namespaces that are there"))
	}
	selector, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	if err != nil {
		return nil, append(errs, field.Invalid(at, field.OmitValueType{}, err.Error()))
	}
	return &Selector{selector, shortened(selector.String())}, errs
}

// Selects says whether it selects a namespace with these labels.
func (s *Selector) Selects(set map[string]string) bool { return s.selector.Matches(labels.Set(set)) }

// Weigh says whether copies are wanted in a namespace; nil is one that is not known.
func (s *Selector) Weigh(ns *Namespace) Answer {
	switch {
	case ns == nil, ns.Ends:
		return Unknown
	case s.Selects(ns.Labels):
		return Yes
	}
	return No
}

// Explain says for people, about a rule and the name of a namespace, what the answer of Weigh is and why.
func (s *Selector) Explain(rule, name string, ns *Namespace) string {
	switch s.Weigh(ns) {
	case Yes:
		return fmt.Sprintf("rule %s: spec.targetNamespaces selects namespace %s (%s)", rule, name, s)
	case No:
		return fmt.Sprintf("rule %s: spec.targetNamespaces (%s) does not select namespace %s, which has %s", rule, s, name, s.unmet(ns.Labels))
	case Unknown:
	}
	if ns != nil {
		return "namespace " + name + " is being deleted"
	}
	return "the labels of namespace " + name + " are not known"
}

// unmet is what the namespace has instead of what is asked for.
func (s *Selector) unmet(set map[string]string) string {
	var out []string
	requirements, _ := s.selector.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		switch value, ok := set[key]; {
		case requirements[i].Matches(labels.Set(set)):
		case ok:
			out = append(out, key+"="+value)
		default:
			out = append(out, "no label "+key)
		}
	}
	return shortened(strings.Join(out, ", "))
}

// Same says that both select the same namespaces.
func (s *Selector) Same(o *Selector) bool { return s.selector.String() == o.selector.String() }

// String says what the selector asks for.
func (s *Selector) String() string { return s.text }

func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
