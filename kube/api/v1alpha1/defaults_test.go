// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestKeyReadsBothForms(t *testing.T) {
	for _, test := range []struct {
		name  string
		match v1alpha1.SyncRuleMatch
		want  v1alpha1.ObjectKey
	}{
		{"none", v1alpha1.SyncRuleMatch{}, v1alpha1.ObjectKey{}},
		{"inside", v1alpha1.SyncRuleMatch{ObjectKey: &v1alpha1.ObjectKey{Name: "a", Namespace: "b"}}, v1alpha1.ObjectKey{Name: "a", Namespace: "b"}},
		{"beside", v1alpha1.SyncRuleMatch{Name: "a", Namespace: "b"}, v1alpha1.ObjectKey{Name: "a", Namespace: "b"}},
		{"one each", v1alpha1.SyncRuleMatch{ObjectKey: &v1alpha1.ObjectKey{Name: "a"}, Namespace: "b"}, v1alpha1.ObjectKey{Name: "a", Namespace: "b"}},
		{"inside wins", v1alpha1.SyncRuleMatch{ObjectKey: &v1alpha1.ObjectKey{Name: "a"}, Name: "z"}, v1alpha1.ObjectKey{Name: "a"}},
	} {
		if got := test.match.Key(); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	var spec v1alpha1.ResourceSyncRuleSpec
	if got := spec.SourceDeletion(); got != v1alpha1.DeletionDelete {
		t.Errorf("SourceDeletion: %s", got)
	}
	if got := spec.RuleDeletion(); got != v1alpha1.DeletionOrphan {
		t.Errorf("RuleDeletion: %s", got)
	}
	var override v1alpha1.Override
	if got := override.Mode(); got != v1alpha1.OverrideReplace {
		t.Errorf("Mode: %s", got)
	}
	var cluster v1alpha1.ClusterSpec
	if got := cluster.TunnelMode(); got != v1alpha1.TunnelAuto {
		t.Errorf("TunnelMode: %s", got)
	}
}

func TestGroupVersionKindOver(t *testing.T) {
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	got := v1alpha1.GroupVersionKind{Kind: "DaemonSet"}.Over(deployment)
	if want := (schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSchemeKnowsEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Cluster", "ClusterList", "ResourceSyncRule", "ResourceSyncRuleList", "ClusterFeature", "ClusterFeatureList"} {
		if !scheme.Recognizes(v1alpha1.SchemeGroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}
