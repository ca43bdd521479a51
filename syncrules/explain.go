// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/where"
)

// Explanation says why a rule selects an object, or why it does not. Matched is the result of Match. The texts are for
// people. They contain names, labels and annotations of the object, never the content of a Secret.
type Explanation struct {
	Matched bool            `json:"matched"`
	Clauses []ClauseVerdict `json:"clauses"` // ORed; none: the rule selects nothing
}

// ClauseVerdict is about one entry of spec.rules.
type ClauseVerdict struct {
	Path    string         `json:"path"`
	Matched bool           `json:"matched"`
	Entries []EntryVerdict `json:"match,omitempty"` // ORed; none: the clause selects everything
}

// EntryVerdict is about one match entry.
type EntryVerdict struct {
	Path    string         `json:"path"`
	Matched bool           `json:"matched"`
	Fields  []FieldVerdict `json:"fields"` // ANDed, but for the selectors of one list, which are ORed
}

// FieldVerdict is about one field, or one selector of a list. Text says what it asks for and, if the object does not have
// that, what it has instead.
type FieldVerdict struct {
	Path    string `json:"path"`
	Matched bool   `json:"matched"`
	Text    string `json:"text"`
}

// String is the field and what it asks for.
func (v FieldVerdict) String() string { return v.Path + ": " + v.Text }

// Explain says for every clause, entry and field whether the object has what it asks for.
func (r *Rule) Explain(obj *unstructured.Unstructured) Explanation {
	o := subject{obj: obj}
	var out Explanation
	for i := range r.clauses {
		v := ClauseVerdict{Path: fmt.Sprintf("spec.rules[%d]", i), Matched: len(r.clauses[i].entries) == 0}
		for j := range r.clauses[i].entries {
			e := r.clauses[i].entries[j].explain(&o, fmt.Sprintf("%s.match[%d]", v.Path, j))
			v.Entries = append(v.Entries, e)
			v.Matched = v.Matched || e.Matched
		}
		out.Clauses = append(out.Clauses, v)
		out.Matched = out.Matched || v.Matched
	}
	return out
}

// verdicts collects the FieldVerdicts of one entry.
type verdicts struct {
	path string
	all  []FieldVerdict
	ok   bool // so far, of those that are ANDed
}

// add appends one verdict; has is what the object has instead.
func (v *verdicts) add(ok bool, path, wants, has string) bool {
	if !ok && has != "" {
		wants += ": object has " + has
	}
	v.all = append(v.all, FieldVerdict{Path: v.path + "." + path, Matched: ok, Text: wants})
	return ok
}

// and combines the verdict of a field, or of all selectors of a list, with that of the entry.
func (v *verdicts) and(ok bool) { v.ok = v.ok && ok }

func (m *matcher) explain(o *subject, path string) EntryVerdict {
	v := verdicts{path: path, ok: true}
	ns := o.obj.GetNamespace()
	if m.name != "" {
		v.and(v.add(m.name == o.obj.GetName(), "objectKey.name", m.name, truncate(o.obj.GetName())))
	}
	if m.namespace != "" {
		v.and(v.add(m.namespace == ns, "objectKey.namespace", m.namespace, cmp.Or(truncate(ns), "no namespace")))
	}
	if len(m.namespaces) > 0 {
		wants := "one of " + strings.Join(m.namespaces, ", ")
		ok := ns == "" && !m.namespacesAlone() || ns != "" && slices.Contains(m.namespaces, ns)
		v.and(v.add(ok, "namespaces", wants, cmp.Or(truncate(ns), "no namespace")))
	}
	if len(m.labels) > 0 {
		met := false
		for i, s := range m.labels {
			unmet := unmetLabels(s, o.obj.GetLabels())
			met = v.add(s.Matches(labels.Set(o.obj.GetLabels())), fmt.Sprintf("labels[%d]", i), cmp.Or(s.String(), "anything"), unmet) || met
		}
		v.and(met)
	}
	if len(m.annotations) > 0 {
		met := false
		for i := range m.annotations {
			s := &m.annotations[i]
			met = v.add(s.match(o.obj.GetAnnotations()), fmt.Sprintf("annotations[%d]", i), s.text(), s.unmet(o.obj.GetAnnotations())) || met
		}
		v.and(met)
	}
	for i, c := range m.content {
		wants := c.Key + " = " + strconv.Quote(truncate(c.Value.StrVal))
		if c.Value.Type == intstr.Int {
			wants = fmt.Sprintf("%s = %d", c.Key, c.Value.IntVal)
		}
		ok := o.has(c)
		v.and(v.add(ok, fmt.Sprintf("content[%d]", i), wants, o.valueAt(c.Key)))
	}
	return EntryVerdict{Path: path, Matched: v.ok, Fields: v.all}
}

// valueAt describes the value that an object has at a gjson path. It does not repeat the content of a Secret.
func (o *subject) valueAt(key string) string {
	got := gjson.GetBytes(o.json, key)
	switch {
	case !got.Exists():
		return "nothing there"
	case o.obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Secret"}):
		return fmt.Sprintf("another value there, of %d bytes", len(got.String()))
	}
	return truncate(got.Raw)
}

// unmetLabels describes the labels that do not meet a selector.
func unmetLabels(s labels.Selector, set labels.Set) string {
	var out []string
	requirements, _ := s.Requirements()
	for i := range requirements {
		if r := &requirements[i]; !r.Matches(set) {
			out = append(out, describeKey("label", r.Key(), set, r.Operator() == selection.DoesNotExist))
		}
	}
	return strings.Join(out, ", ")
}

// unmet describes the annotations that do not meet the selector.
func (s *annotationSelector) unmet(annotations map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.equal)) {
		if got, ok := annotations[key]; !ok || got != s.equal[key] {
			out = append(out, describeKey("annotation", key, annotations, false))
		}
	}
	for _, e := range s.expressions {
		one := annotationSelector{expressions: []v1alpha1.AnnotationSelectorRequirement{e}}
		if !one.match(annotations) {
			out = append(out, describeKey("annotation", e.Key, annotations, e.Operator == metav1.LabelSelectorOpDoesNotExist))
		}
	}
	return strings.Join(out, ", ")
}

// describeKey describes a label or annotation. Values in which a tool stores the whole object are left out.
func describeKey(what, key string, set map[string]string, keyOnly bool) string {
	value, ok := set[key]
	switch {
	case !ok:
		return "no " + what + " " + key
	case keyOnly, strings.Contains(key, "last-applied"), strings.HasPrefix(key, "objectset.rio.cattle.io/"):
		return what + " " + key
	}
	return key + "=" + truncate(value)
}

func (s *annotationSelector) text() string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.equal)) {
		out = append(out, key+"="+truncate(s.equal[key]))
	}
	for _, e := range s.expressions {
		text := string(e.Operator) + " " + e.Key
		if len(e.Values) > 0 {
			text = e.Key + " " + string(e.Operator) + " (" + truncate(strings.Join(e.Values, ", ")) + ")"
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ","), "anything")
}

// ExplainTargets says why copies are wanted, or not, in the cluster with this Cluster object. The answer is that of Targets.
func (r *Rule) ExplainTargets(cluster *v1alpha1.Cluster) (where.Answer, FieldVerdict) {
	answer, text := r.targets.Explain(cluster)
	return answer, FieldVerdict{Path: "spec.targets", Matched: answer == where.Yes, Text: text}
}

// ExplainFeatures says for each entry of clusterFeatureMatch which feature meets it, or that none does. FeaturesMatch is
// true if all entries are met.
func (r *Rule) ExplainFeatures(features []*v1alpha1.ClusterFeature) []FieldVerdict {
	var out []FieldVerdict
	for i, entry := range r.features {
		v := FieldVerdict{Path: fmt.Sprintf("spec.clusterFeatureMatch[%d]", i), Text: entry.text()}
		if met := slices.IndexFunc(features, entry.meets); met >= 0 {
			v.Matched = true
			v.Text += ": met by ClusterFeature " + features[met].Name
		} else {
			v.Text += ": " + entry.unmet(features)
		}
		out = append(out, v)
	}
	return out
}

func (m featureMatch) text() string {
	var out []string
	if m.name != "" {
		out = append(out, "featureName "+m.name)
	}
	if text := m.labels.String(); text != "" {
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// unmet describes the features that come closest to meeting the entry.
func (m featureMatch) unmet(features []*v1alpha1.ClusterFeature) string {
	var named []string
	for _, f := range features {
		if f != nil && (m.name == "" || f.Spec.FeatureName == m.name) {
			named = append(named, fmt.Sprintf("ClusterFeature %s has %s", f.Name, unmetLabels(m.labels, f.Labels)))
		}
	}
	if len(named) == 0 {
		return "the cluster has no such ClusterFeature"
	}
	return truncate(strings.Join(named, "; "))
}

// maxShown is how many bytes of one value are shown.
const maxShown = 96

// truncate shortens a value to maxShown bytes.
func truncate(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
