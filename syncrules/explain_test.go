// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/where"
)

// matches draws match entries from few values, so that they often select what objects draws.
func matches() *rapid.Generator[v1alpha1.SyncRuleMatch] {
	key := rapid.SampledFrom([]string{"a", "b", "example.com/c"})
	some := rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2"}), 1, 2)
	operator := rapid.SampledFrom([]metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"})
	return rapid.Custom(func(t *rapid.T) v1alpha1.SyncRuleMatch {
		var m v1alpha1.SyncRuleMatch
		if rapid.Bool().Draw(t, "by key") {
			m.ObjectKey = &v1alpha1.ObjectKey{Name: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "name"), Namespace: rapid.SampledFrom([]string{"", "shop", "bank"}).Draw(t, "namespace")}
		}
		m.Namespaces = rapid.SliceOfN(rapid.SampledFrom([]string{"shop", "bank"}), 0, 2).Draw(t, "namespaces")
		for range rapid.IntRange(0, 2).Draw(t, "label selectors") {
			s := metav1.LabelSelector{MatchLabels: rapid.MapOfN(key, rapid.SampledFrom([]string{"1", "2"}), 0, 2).Draw(t, "labels")}
			for range rapid.IntRange(0, 1).Draw(t, "expressions") {
				e := metav1.LabelSelectorRequirement{Key: key.Draw(t, "key"), Operator: operator.Draw(t, "operator")}
				if e.Operator == "In" || e.Operator == "NotIn" {
					e.Values = some.Draw(t, "values")
				}
				s.MatchExpressions = append(s.MatchExpressions, e)
			}
			m.Labels = append(m.Labels, s)
		}
		for range rapid.IntRange(0, 2).Draw(t, "annotation selectors") {
			s := v1alpha1.AnnotationSelector{MatchAnnotations: rapid.MapOfN(key, rapid.SampledFrom([]string{"1", "2"}), 0, 2).Draw(t, "annotations")}
			for range rapid.IntRange(0, 1).Draw(t, "expressions") {
				e := v1alpha1.AnnotationSelectorRequirement{Key: key.Draw(t, "key"), Operator: operator.Draw(t, "operator")}
				if e.Operator == "In" || e.Operator == "NotIn" {
					e.Values = some.Draw(t, "values")
				}
				s.MatchExpressions = append(s.MatchExpressions, e)
			}
			m.Annotations = append(m.Annotations, s)
		}
		for range rapid.IntRange(0, 2).Draw(t, "contents") {
			m.Content = append(m.Content, v1alpha1.ContentSelector{
				Key:   rapid.SampledFrom([]string{"data.a", "spec.b.c", "spec.#", "metadata.name"}).Draw(t, "path"),
				Value: rapid.SampledFrom([]intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("x"), intstr.FromString("1")}).Draw(t, "value"),
			})
		}
		return m
	})
}

// Explain says the same as Match.
func TestExplainAgreesWithMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obj := objects().Draw(t, "object")
		if rapid.Bool().Draw(t, "outside namespaces") {
			obj.SetNamespace("")
		}
		api := &v1alpha1.ResourceSyncRule{}
		api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: obj.GetKind()}
		for range rapid.IntRange(0, 3).Draw(t, "clauses") {
			api.Spec.Rules = append(api.Spec.Rules, v1alpha1.SyncRule{Matches: rapid.SliceOfN(matches(), 0, 3).Draw(t, "match")})
		}
		rule, err := Compile(api)
		if err != nil {
			return // an entry that selects by nothing
		}
		before := obj.DeepCopy()
		got := rule.Explain(obj)
		if !equal(before.Object, obj.Object) {
			t.Fatal("the object was changed")
		}
		o := subject{obj: obj}
		for i, c := range got.Clauses {
			if want := rule.clauses[i].match(&o); c.Matched != want {
				t.Fatalf("%s: explained %v, matched %v", c.Path, c.Matched, want)
			}
			for j, e := range c.Entries {
				if want := rule.clauses[i].entries[j].match(&o); e.Matched != want {
					t.Fatalf("%s: explained %v, matched %v: %+v", e.Path, e.Matched, want, e.Fields)
				}
				if !e.Matched && !slices.ContainsFunc(e.Fields, func(f FieldVerdict) bool { return !f.Matched }) {
					t.Fatalf("%s does not match and no field says why: %+v", e.Path, e.Fields)
				}
			}
		}
		if want := rule.Match(obj); got.Matched != want {
			t.Fatalf("explained %v, matched %v", got.Matched, want)
		}
	})
}

func explained(t *testing.T, rule, object string) []string {
	t.Helper()
	var api v1alpha1.ResourceSyncRule
	if err := yaml.UnmarshalStrict([]byte("spec:\n"+rule), &api); err != nil {
		t.Fatal(err)
	}
	compiled, err := Compile(&api)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(object), &obj.Object); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range compiled.Explain(obj).Clauses {
		for _, e := range c.Entries {
			for _, f := range e.Fields {
				out = append(out, fmt.Sprintf("%v %s: %s", f.Matched, strings.TrimPrefix(f.Path, "spec."), f.Text))
			}
		}
	}
	return out
}

func TestExplainWords(t *testing.T) {
	got := explained(t, `
  groupVersionKind: {version: v1, kind: Secret}
  rules:
  - match:
    - objectKey: {name: db, namespace: shop}
      labels: [{matchLabels: {app: web, tier: back}}, {matchExpressions: [{key: app, operator: DoesNotExist}]}]
    - namespaces: [bank, shop]
      annotations:
      - matchAnnotations: {example.com/url: "https://a/?b=c"}
      - matchExpressions: [{key: kubectl.kubernetes.io/last-applied-configuration, operator: NotIn, values: ["{hidden}"]}]
    - content: [{key: type, value: Opaque}, {key: data.password, value: aa}, {key: data.user, value: 1}]
`, `
apiVersion: v1
kind: Secret
type: Opaque
metadata:
  name: web
  namespace: shop
  labels: {app: api, tier: back}
  annotations: {example.com/url: "http://x", kubectl.kubernetes.io/last-applied-configuration: "{hidden}"}
data: {password: aHVudGVyMg==}
`)
	want := []string{
		`false rules[0].match[0].objectKey.name: db: object has web`,
		`true rules[0].match[0].objectKey.namespace: shop`,
		`false rules[0].match[0].labels[0]: app=web,tier=back: object has app=api`,
		`false rules[0].match[0].labels[1]: !app: object has label app`,
		`true rules[0].match[1].namespaces: one of bank, shop`,
		`false rules[0].match[1].annotations[0]: example.com/url=https://a/?b=c: object has example.com/url=http://x`,
		`false rules[0].match[1].annotations[1]: kubectl.kubernetes.io/last-applied-configuration NotIn ({hidden}): object has annotation kubectl.kubernetes.io/last-applied-configuration`,
		`true rules[0].match[2].content[0]: type = "Opaque"`,
		`false rules[0].match[2].content[1]: data.password = "aa": object has another value there, of 12 bytes`,
		`false rules[0].match[2].content[2]: data.user = 1: object has nothing there`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExplainFeaturesAgreesWithFeaturesMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		api := &v1alpha1.ResourceSyncRule{}
		api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}
		names := rapid.SampledFrom([]string{"f", "g"})
		set := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"1", "2"}), 0, 2)
		for range rapid.IntRange(0, 2).Draw(t, "entries") {
			api.Spec.ClusterFeatureMatches = append(api.Spec.ClusterFeatureMatches,
				v1alpha1.ClusterFeatureMatch{FeatureName: names.Draw(t, "name"), MatchLabels: set.Draw(t, "labels")})
		}
		api.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: set.Draw(t, "targets")}}
		rule, err := Compile(api)
		if err != nil {
			t.Fatal(err)
		}
		var features []*v1alpha1.ClusterFeature
		for range rapid.IntRange(0, 2).Draw(t, "features") {
			f := &v1alpha1.ClusterFeature{}
			f.Name, f.Labels, f.Spec.FeatureName = "it", set.Draw(t, "has"), names.Draw(t, "called")
			features = append(features, f)
		}
		all := true
		for _, v := range rule.ExplainFeatures(features) {
			all = all && v.Matched
		}
		if all != rule.FeaturesMatch(features) {
			t.Fatalf("explained %v: %+v", all, rule.ExplainFeatures(features))
		}
		cluster := &v1alpha1.Cluster{}
		cluster.Labels = set.Draw(t, "cluster")
		if answer, v := rule.ExplainTargets(cluster); answer != rule.Targets(cluster) || v.Matched != (answer == where.Yes) || !v.Matched && !strings.Contains(v.Text, "has") {
			t.Fatalf("targets: %+v", v)
		}
	})
}
