// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestCleanCluster(t *testing.T) {
	t.Parallel()
	in := apitest.Parse(t, `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: Cluster
metadata:
  name: alpha
  namespace: nonsense
  generateName: al
  uid: 1-2-3
  resourceVersion: "77"
  generation: 4
  creationTimestamp: "2026-01-02T03:04:05Z"
  deletionTimestamp: "2026-01-02T03:04:05Z"
  deletionGracePeriodSeconds: 0
  selfLink: /x
  finalizers: [example.com/hold]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: y}]
  managedFields: [{manager: kubectl}]
  labels:
    example.com/team: blue
    helm.sh/chart: agent-1
    app.kubernetes.io/managed-by: Helm
  annotations:
    example.com/note: hello
    meta.helm.sh/release-name: agent
    kubectl.kubernetes.io/last-applied-configuration: '{"a":1}'
    local.cluster-registry.k8s.cisco.com/x: "1"
    cluster-registry.k8s.cisco.com/cluster-disabled: ""
    cluster-registry.k8s.cisco.com/resource-sync-disabled: ""
    cluster-registry.k8s.cisco.com/confirm-restore: once
    cluster-registry.k8s.cisco.com/resource-owner-cluster-id: id
spec:
  clusterID: id
  authInfo: {secretRef: {name: alpha, namespace: there}}
  kubernetesApiEndpoints: [{serverAddress: "10.0.0.1:6443"}]
  later: {field: 1}
status:
  type: Local
`)
	before := in.DeepCopy()
	want := apitest.Parse(t, `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: Cluster
metadata:
  name: alpha
  labels: {example.com/team: blue}
  annotations: {example.com/note: hello}
spec:
  clusterID: id
  authInfo: {secretRef: {name: alpha, namespace: here}}
  kubernetesApiEndpoints: [{serverAddress: "10.0.0.1:6443"}]
  later: {field: 1}
`)
	if diff := cmp.Diff(want.Object, CleanCluster(in, v1alpha1.NamespacedName{Name: "alpha", Namespace: "here"}).Object); diff != "" {
		t.Errorf("cleaned cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object, in.Object); diff != "" {
		t.Errorf("the input was changed (-before +after):\n%s", diff)
	}
}

func TestCleanSecret(t *testing.T) {
	t.Parallel()
	in := apitest.Parse(t, `
apiVersion: v1
kind: Secret
type: k8s.cisco.com/cluster-registry-secret
immutable: true
metadata: {name: alpha, namespace: there, uid: u, resourceVersion: "3", labels: {a: b}}
data: {kubeconfig: eA==}
`)
	want := apitest.Parse(t, `
apiVersion: v1
kind: Secret
type: k8s.cisco.com/cluster-registry-secret
metadata: {name: alpha, namespace: here, labels: {a: b}}
data: {kubeconfig: eA==}
`)
	if diff := cmp.Diff(want.Object, CleanSecret(in, "here").Object); diff != "" {
		t.Errorf("cleaned secret (-want +got):\n%s", diff)
	}
}

// A clean copy of a clean copy is the same: a cluster may be handed on by hand.
func TestCleanTwiceIsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{
			"a", "app.kubernetes.io/managed-by", "meta.helm.sh/x", "local.cluster-registry.k8s.cisco.com/y",
			"kubectl.kubernetes.io/last-applied-configuration", "helm.sh/chart",
		})
		in := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterID": "id"}}}
		in.SetAPIVersion("v1")
		in.SetKind("Cluster")
		in.SetName("alpha")
		in.SetUID("u")
		in.SetLabels(rapid.MapOf(key, rapid.String()).Draw(t, "labels"))
		in.SetAnnotations(rapid.MapOf(key, rapid.String()).Draw(t, "annotations"))
		credential := v1alpha1.NamespacedName{Name: "s", Namespace: "ns"}
		once := CleanCluster(in, credential)
		if diff := cmp.Diff(once.Object, CleanCluster(once, credential).Object); diff != "" {
			t.Fatal(diff)
		}
		if overlay(once.DeepCopy(), once) {
			t.Fatal("laying an object over itself changed it")
		}
	})
}
