// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// clause is one entry of spec.rules: what it selects, and how the copies differ from their sources.
type clause struct {
	entries     []matcher // ORed; without any it selects everything
	annotations changes
	labels      changes
	kind        v1alpha1.GroupVersionKind // the parts that change
	overrides   []override
	syncStatus  bool
}

// matcher is one match entry. Its fields are ANDed; the items of a list are ORed, except those of content.
type matcher struct {
	name, namespace string
	namespaces      []string
	labels          []labels.Selector
	annotations     []annotationSelector
	content         []v1alpha1.ContentSelector
}

// Match says whether any clause of the rule selects the object. Obstacle says whether the object may be copied at all.
func (r *Rule) Match(obj *unstructured.Unstructured) bool {
	o := subject{obj: obj}
	return slices.ContainsFunc(r.clauses, func(c clause) bool { return c.match(&o) })
}

// subject is an object that is matched.
type subject struct {
	obj  *unstructured.Unstructured
	json []byte // of obj, without what a credential holds; nil until a matcher needs it
}

func (c *clause) match(o *subject) bool {
	return len(c.entries) == 0 || slices.ContainsFunc(c.entries, func(m matcher) bool { return m.match(o) })
}

func (m *matcher) match(o *subject) bool {
	ns := o.obj.GetNamespace()
	switch {
	case m.name != "" && m.name != o.obj.GetName():
		return false
	case m.namespace != "" && m.namespace != ns:
		return false
	case len(m.namespaces) > 0 && ns != "" && !slices.Contains(m.namespaces, ns), ns == "" && m.namespacesAlone():
		return false
	}
	if len(m.labels) > 0 {
		set := labelsOf(metadataMap(o.obj, "labels"))
		if !slices.ContainsFunc(m.labels, func(s labels.Selector) bool { return s.Matches(set) }) {
			return false
		}
	}
	if len(m.annotations) > 0 {
		set := o.obj.GetAnnotations()
		if !slices.ContainsFunc(m.annotations, func(s annotationSelector) bool { return s.match(set) }) {
			return false
		}
	}
	for _, c := range m.content {
		if !o.has(c) {
			return false
		}
	}
	return true
}

// labelsOf implements labels.Labels on the labels of an object as they are.
type labelsOf map[string]any

// Has implements labels.Labels.
func (l labelsOf) Has(name string) bool { _, ok := l[name]; return ok }

// Get implements labels.Labels.
func (l labelsOf) Get(name string) string { return textOf(l[name]) }

// Lookup implements labels.Labels.
func (l labelsOf) Lookup(name string) (string, bool) { return l.Get(name), l.Has(name) }

// has says whether the object has the value at the path. An integer is also equal to its decimal text, since the values
// of a ConfigMap are always text.
func (o *subject) has(c v1alpha1.ContentSelector) bool {
	if o.json == nil {
		var err error
		obj := o.obj
		if consent.HoldsCredential(obj) {
			obj = withoutContent(obj) // whether it is selected would answer guesses
		}
		if o.json, err = json.Marshal(obj.Object); err != nil {
			o.json = []byte("{}") // it is not JSON, so it does not come from an API server, and nothing matches
		}
	}
	got := gjson.GetBytes(o.json, c.Key)
	if !got.Exists() {
		return false
	}
	if c.Value.Type == intstr.String {
		return got.String() == c.Value.StrVal
	}
	if got.Type == gjson.Number {
		return got.Num == math.Trunc(got.Num) && got.Int() == int64(c.Value.IntVal)
	}
	return got.Type == gjson.String && got.Str == strconv.Itoa(int(c.Value.IntVal))
}

// annotationSelector is like a label selector, without the limits on values.
type annotationSelector struct {
	equal       map[string]string
	expressions []v1alpha1.AnnotationSelectorRequirement
}

func (s *annotationSelector) match(annotations map[string]string) bool {
	for key, want := range s.equal {
		if got, ok := annotations[key]; !ok || got != want {
			return false
		}
	}
	for _, e := range s.expressions {
		got, ok := annotations[e.Key]
		var met bool
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			met = ok && slices.Contains(e.Values, got)
		case metav1.LabelSelectorOpNotIn:
			met = !ok || !slices.Contains(e.Values, got)
		case metav1.LabelSelectorOpExists:
			met = ok
		case metav1.LabelSelectorOpDoesNotExist:
			met = !ok
		}
		if !met {
			return false
		}
	}
	return true
}
