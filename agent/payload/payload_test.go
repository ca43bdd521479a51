// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	idA = "0a000000-0000-4000-8000-000000000001"
	idB = "0b000000-0000-4000-8000-000000000002"
	idC = "0c000000-0000-4000-8000-000000000003"
)

func TestClusterPayloadLeavesLocalPartsOut(t *testing.T) {
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "a",
			Labels: map[string]string{"env": "prod", v1alpha1.LabelOwnerClusterID: idB, v1alpha1.LocalPrefix + "x": "1"},
			Annotations: map[string]string{
				"note": "kept", v1alpha1.AnnotationRegistryManagedFields: "managed-fields", corev1.LastAppliedConfigAnnotation: "{}", v1alpha1.AnnotationClusterDisabled: "", "meta.helm.sh/release-name": "r",
			},
		},
		Spec: v1alpha1.ClusterSpec{
			ClusterID: idA,
			AuthInfo: v1alpha1.AuthInfo{
				SecretRef:  v1alpha1.NamespacedName{Name: "secret-name", Namespace: "n"},
				User:       &v1alpha1.ObjectReference{Kind: "Secret", Name: "user-name"},
				Controller: &v1alpha1.ObjectReference{Kind: "Vault", Name: "controller-name"},
			},
			KubernetesAPIEndpoints: []v1alpha1.KubernetesAPIEndpoint{{ClientCIDR: "10.0.0.0/8", ServerAddress: "a"}},
			Mesh:                   &v1alpha1.ClusterMesh{Endpoints: []string{"a:1"}},
		},
		Status: v1alpha1.ClusterStatus{State: v1alpha1.ClusterStateReady, Message: "local-message", Version: "v1.36.3", AgentVersion: "0.1.0"},
	}
	payload, err := EncodeCluster(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, local := range []string{"secret-name", "user-name", "controller-name", "managed-fields", "local-message", idB, "last-applied", "cluster-disabled", "helm"} {
		if strings.Contains(string(payload), local) {
			t.Errorf("payload has %q, which is local: %s", local, payload)
		}
	}
	p, err := DecodeCluster(idA, payload)
	if err != nil {
		t.Fatal(err)
	}
	want := Meta{Labels: map[string]string{"env": "prod"}, Annotations: map[string]string{"note": "kept"}}
	if diff := cmp.Diff(want, p.Meta); diff != "" || p.Name != "a" || p.Version != "v1.36.3" || p.AgentVersion != "0.1.0" || p.Spec.Mesh.Endpoints[0] != "a:1" || p.Spec.KubernetesAPIEndpoints[0].ClientCIDR != "10.0.0.0/8" {
		t.Errorf("decoded %+v\n%s", p, diff)
	}
}

func TestDecodeClusterRefuses(t *testing.T) {
	for name, payload := range map[string]string{
		"not JSON":            "{",
		"another cluster":     `{"name":"a","spec":{"clusterID":"` + idB + `"}}`,
		"no name":             `{"spec":{"clusterID":"` + idA + `"}}`,
		"a name with a slash": `{"name":"a/b","spec":{"clusterID":"` + idA + `"}}`,
	} {
		if _, err := DecodeCluster(idA, []byte(payload)); !errors.Is(err, ErrPayload) {
			t.Errorf("%s: error %v, want ErrPayload", name, err)
		}
	}
}

func FuzzDecodePayloads(f *testing.F) {
	f.Add([]byte(`{"name":"a","labels":{"x":"y"},"spec":{"clusterID":"` + idA + `","authInfo":{"secretRef":{"name":"s"}}}}`))
	f.Add([]byte(`{"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"rules":[{"match":[{"objectKey":null,"name":"x"}]}]}}`))
	f.Add([]byte(`{"spec":{"featureName":"f"}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if p, err := DecodeCluster(idA, payload); err == nil {
			if string(p.Spec.ClusterID) != idA || p.Spec.AuthInfo != (v1alpha1.AuthInfo{}) {
				t.Errorf("accepted %+v", p)
			}
			var c v1alpha1.Cluster
			MarkCopy(&c, p.Meta, idA)
			if syncrules.Owner(&c) != idA {
				t.Errorf("a payload changed the owner to %q", syncrules.Owner(&c))
			}
		}
		if p, err := DecodeRule(idA, "rule", payload); err == nil && len(p.Annotations[v1alpha1.AnnotationOwnerClusterID]) > 0 {
			t.Errorf("a payload carries an owner: %v", p.Annotations)
		}
		_, _ = DecodeFeature(idA, "feature", payload)
	})
}

func TestMarkCopyKeepsLocalMetadata(t *testing.T) {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"gone": "1", "stays": "old"},
		Annotations: map[string]string{v1alpha1.AnnotationClusterDisabled: "", v1alpha1.LocalPrefix + "mine": "1", "gone": "1", v1alpha1.AnnotationOrphaned: ""},
	}}
	MarkCopy(c, Meta{Labels: map[string]string{"stays": "new"}}, idA)
	wantLabels := map[string]string{"stays": "new", v1alpha1.LabelOwnerClusterID: idA}
	wantAnnotations := map[string]string{v1alpha1.AnnotationClusterDisabled: "", v1alpha1.LocalPrefix + "mine": "1", v1alpha1.AnnotationOwnerClusterID: idA}
	if diff := cmp.Diff(wantLabels, c.Labels) + cmp.Diff(wantAnnotations, c.Annotations); diff != "" {
		t.Error(diff)
	}
}

func TestClashName(t *testing.T) {
	if got := ClashName("prod", idB); got != "prod-0b000000" {
		t.Errorf("ClashName = %q", got)
	}
	long := ClashName(strings.Repeat("x", 253), "not a uid")
	if len(long) > 253 || ClashName(strings.Repeat("x", 253), "another") == long {
		t.Errorf("ClashName of a long name = %q", long)
	}
}
