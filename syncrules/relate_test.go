// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestRelate(t *testing.T) {
	feature := &v1alpha1.ClusterFeature{Spec: v1alpha1.ClusterFeatureSpec{FeatureName: "f"}}
	edge := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "alpha", Labels: map[string]string{"tier": "edge"}}}
	whole := ClusterPair{To: edge, From: "beta", Features: []*v1alpha1.ClusterFeature{feature}, FeaturesKnown: true}
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.ResourceSyncRuleSpec, *ClusterPair)
		want   Relation
		why    string
	}{
		{"asks", func(*v1alpha1.ResourceSyncRuleSpec, *ClusterPair) {}, Asks, ""},
		{"paused", func(s *v1alpha1.ResourceSyncRuleSpec, _ *ClusterPair) { s.Paused = true }, Stopped, "rule r is paused"},
		{"not a target", func(_ *v1alpha1.ResourceSyncRuleSpec, b *ClusterPair) {
			b.To = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: nil}}
		}, Excludes, "rule r: spec.targets: tier=edge"},
		{"cluster unknown", func(_ *v1alpha1.ResourceSyncRuleSpec, b *ClusterPair) { b.To = nil }, Unclear, "not known yet"},
		{"region unknown", func(s *v1alpha1.ResourceSyncRuleSpec, _ *ClusterPair) { s.Targets.Regions = []string{"eu"} }, Unclear, "no region yet"},
		{"no feature", func(_ *v1alpha1.ResourceSyncRuleSpec, b *ClusterPair) { b.Features = nil }, Excludes, "rule r: spec.clusterFeatureMatch[0]"},
		{"features unknown", func(_ *v1alpha1.ResourceSyncRuleSpec, b *ClusterPair) { b.FeaturesKnown = false }, Unclear, "features of cluster beta"},
		{"nothing asked of either", func(s *v1alpha1.ResourceSyncRuleSpec, b *ClusterPair) {
			*b, s.Targets, s.ClusterFeatureMatches = ClusterPair{}, nil, nil
		}, Asks, ""},
		// A reason to release copies comes before a reason to freeze them.
		{"paused and not a target", func(s *v1alpha1.ResourceSyncRuleSpec, b *ClusterPair) { s.Paused, b.To = true, &v1alpha1.Cluster{} }, Excludes, "spec.targets"},
	} {
		api, b := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, whole
		api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		api.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}}
		api.Spec.ClusterFeatureMatches = []v1alpha1.ClusterFeatureMatch{{FeatureName: "f"}}
		c.change(&api.Spec, &b)
		r, err := Compile(api)
		if err != nil {
			t.Fatal(err)
		}
		if got, why := r.Relate(b); got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d, %q; want %d, %q", c.name, got, why, c.want, c.why)
		}
	}
}

// An entry of clusterFeatureMatch is met by one feature that has all of it, and all entries must be met.
func TestFeaturesMatch(t *testing.T) {
	feature := func(name string, labels map[string]string) *v1alpha1.ClusterFeature {
		f := &v1alpha1.ClusterFeature{Spec: v1alpha1.ClusterFeatureSpec{FeatureName: name}}
		f.Labels = labels
		return f
	}
	type match = v1alpha1.ClusterFeatureMatch
	mesh := feature("mesh", map[string]string{"version": "2", "tier": "gold"})
	named := match{FeatureName: "mesh"}
	labelled := match{FeatureName: "mesh", MatchLabels: map[string]string{"version": "2"}}
	expressed := match{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"gold"}}, {Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	for name, c := range map[string]struct {
		entries  []match
		features []*v1alpha1.ClusterFeature
		want     bool
	}{
		"nothing is asked for":   {nil, nil, true},
		"name":                   {[]match{named}, []*v1alpha1.ClusterFeature{mesh}, true},
		"another name":           {[]match{named}, []*v1alpha1.ClusterFeature{feature("other", nil)}, false},
		"labels":                 {[]match{labelled}, []*v1alpha1.ClusterFeature{mesh}, true},
		"other labels":           {[]match{labelled}, []*v1alpha1.ClusterFeature{feature("mesh", map[string]string{"version": "1"})}, false},
		"no labels":              {[]match{labelled}, []*v1alpha1.ClusterFeature{feature("mesh", nil)}, false},
		"half in each of two":    {[]match{labelled}, []*v1alpha1.ClusterFeature{feature("mesh", nil), feature("other", mesh.Labels)}, false},
		"expressions":            {[]match{expressed}, []*v1alpha1.ClusterFeature{feature("any", map[string]string{"tier": "lead"})}, true},
		"one expression fails":   {[]match{expressed}, []*v1alpha1.ClusterFeature{mesh}, false},
		"the other one fails":    {[]match{expressed}, []*v1alpha1.ClusterFeature{feature("any", nil)}, false},
		"all entries are met":    {[]match{named, expressed}, []*v1alpha1.ClusterFeature{mesh, feature("any", map[string]string{"tier": "lead"})}, true},
		"one entry is not":       {[]match{named, expressed}, []*v1alpha1.ClusterFeature{mesh}, false},
		"one feature meets both": {[]match{named, labelled}, []*v1alpha1.ClusterFeature{mesh}, true},
	} {
		r := compiled(t, func(r *v1alpha1.ResourceSyncRule) { r.Spec.ClusterFeatureMatches = c.entries })
		if got := r.FeaturesMatch(c.features); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Names and namespaces of copies are told to more people than may read Secrets, and so are not made from what they hold.
func TestPlaceWithoutContent(t *testing.T) {
	object := func(kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "x", "namespace": "y", "annotations": map[string]any{
				"example.com/to": "noted", "kubectl.kubernetes.io/last-applied-configuration": "hunter22",
			}},
			"data": map[string]any{"v": "aHVudGVyMjI="}, "stringData": map[string]any{"v": "hunter22"},
		}}
	}
	for value, want := range map[string]struct{ ofSecret, ofOther string }{
		"fixed":                                                     {"fixed", "fixed"},
		"{{ .Object.metadata.name }}-x":                             {"x-x", "x-x"},
		"{{ .Object.Data.v | b64dec }}":                             {"", "hunter22"},
		"{{ .Object.stringData.v }}":                                {"", "hunter22"},
		`n{{ len (.Object.data.v | default "") }}`:                  {"n0", "n12"},
		`{{ index .Object.metadata.annotations "example.com/to" }}`: {"noted", "noted"},
		`{{ index .Object.metadata.annotations "kubectl.kubernetes.io/last-applied-configuration" }}`: {"", "hunter22"},
	} {
		for _, path := range []string{"/metadata/name", "/metadata/namespace"} {
			for kind, want := range map[string]string{"Secret": want.ofSecret, "ConfigMap": want.ofOther} {
				api := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
				api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: kind}
				api.Spec.Rules = []v1alpha1.SyncRule{{}}
				api.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{Type: v1alpha1.OverrideReplace, Path: path, Value: value}}
				r, err := Compile(api)
				if err != nil {
					t.Fatal(err)
				}
				source := object(kind)
				at, err := r.Target(source, Input{})
				got := at.Name
				if path == "/metadata/namespace" {
					got = at.Namespace
				}
				if got != want || (err == nil) != (want != "") {
					t.Errorf("%s of a %s, %s: %q, want %q: %v", path, kind, value, got, want, err)
				}
				copied, rendered := Render([]*Rule{r}, source, Input{Owner: "o"})
				if (rendered == nil) != (err == nil) || rendered == nil && PlaceOf(copied) != at {
					t.Errorf("%s of a %s, %s: rendered to %v, %v; its place is %v, %v", path, kind, value, copied, rendered, at, err)
				}
				if !reflect.DeepEqual(source, object(kind)) {
					t.Errorf("%s of a %s, %s: the source was changed", path, kind, value)
				}
			}
		}
	}
}

// Whether a rule selects a credential does not answer guesses at it.
func TestContentOfCredentialsIsNotMatched(t *testing.T) {
	for kind, want := range map[string]bool{"Opaque": true, v1alpha1.SecretType: false, "bootstrap.kubernetes.io/token": false} {
		source := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": map[string]any{"name": "x", "namespace": "y"}, "data": map[string]any{"v": "guess"},
		}}
		r := compiled(t, func(r *v1alpha1.ResourceSyncRule) {
			r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}
			r.Spec.Rules = []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Content: []v1alpha1.ContentSelector{{Key: "data.v", Value: intstr.FromString("guess")}}}}}}
		})
		if got := r.Match(source); got != want {
			t.Errorf("a Secret of type %s is matched by what it holds: %t", kind, got)
		}
	}
}
