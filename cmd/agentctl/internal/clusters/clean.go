// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// SecretRef is the Secret that a Cluster object names as its credential.
func SecretRef(cluster *unstructured.Unstructured) v1alpha1.NamespacedName {
	name, _, _ := unstructured.NestedString(cluster.Object, "spec", "authInfo", "secretRef", "name")
	namespace, _, _ := unstructured.NestedString(cluster.Object, "spec", "authInfo", "secretRef", "namespace")
	return v1alpha1.NamespacedName{Name: name, Namespace: namespace}
}

// CheckSameKey refuses to replace the key that a cluster was first met with: agents would not accept it
// either (the first pin wins), but only this place can say so at once.
func CheckSameKey(there, offered *unstructured.Unstructured) error {
	if old := MeshKey(there); old != "" && old != MeshKey(offered) {
		return fmt.Errorf("cluster %s (%s) is known there with another mesh key; a group never changes the key of a member by a swap; end the old key with agentctl join --replace-key, or agentctl remove there", there.GetName(), IDOf(offered))
	}
	return nil
}

// CheckSameCluster refuses an object that stands for another cluster.
func CheckSameCluster(cluster *unstructured.Unstructured) func(there *unstructured.Unstructured) error {
	return func(there *unstructured.Unstructured) error {
		if id := IDOf(there); id != IDOf(cluster) {
			return fmt.Errorf("is another cluster's (%s)", id)
		}
		return nil
	}
}

// SameButCredential compares what the origin decides; authInfo belongs to the receiving side.
func SameButCredential(a, b *unstructured.Unstructured) bool {
	spec := func(u *unstructured.Unstructured) map[string]any {
		m, _, _ := unstructured.NestedMap(u.Object, "spec") // a deep copy
		delete(m, "authInfo")
		return m
	}
	return reflect.DeepEqual(spec(a), spec(b))
}

// CleanCluster is a Cluster object without what its own API server and its users there have put on
// it: what `kubectl get -o yaml` prints and must not be written elsewhere. It names credential, or none where that is empty.
func CleanCluster(in *unstructured.Unstructured, credential v1alpha1.NamespacedName) *unstructured.Unstructured {
	out := cleanObject(in)
	spec, _, _ := unstructured.NestedMap(in.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, "authInfo")
	if credential.Name != "" {
		spec["authInfo"] = map[string]any{"secretRef": map[string]any{"name": credential.Name, "namespace": credential.Namespace}}
	}
	out.Object["spec"] = spec
	return out
}

// CleanSecret is the credential of a cluster, cleaned in the same way, for another namespace.
func CleanSecret(in *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := cleanObject(in)
	out.SetNamespace(namespace)
	out.Object["type"] = v1alpha1.SecretType
	if data, found, _ := unstructured.NestedMap(in.Object, "data"); found {
		out.Object["data"] = data
	}
	return out
}

func cleanObject(in *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(in.GetAPIVersion())
	out.SetKind(in.GetKind())
	out.SetName(in.GetName())
	if m := cleanMarks(in.GetLabels()); len(m) > 0 {
		out.SetLabels(m)
	}
	if m := cleanMarks(in.GetAnnotations()); len(m) > 0 {
		out.SetAnnotations(m)
	}
	return out
}

// cleanMarks drops labels and annotations that have a meaning only where they were set.
func cleanMarks(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		switch {
		case k == "kubectl.kubernetes.io/last-applied-configuration",
			k == v1alpha1.AnnotationClusterDisabled,
			k == v1alpha1.AnnotationSyncDisabled,
			k == v1alpha1.AnnotationOwnerClusterID,
			k == v1alpha1.AnnotationConfirmRestore, // said in one cluster, of what that cluster's API server has
			strings.HasPrefix(k, v1alpha1.LocalPrefix),
			strings.HasPrefix(k, "meta.helm.sh/"),
			k == "app.kubernetes.io/managed-by", k == "helm.sh/chart":
			continue
		}
		out[k] = v
	}
	return out
}
