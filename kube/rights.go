// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// AgentRights are the permissions without which an agent in a namespace cannot work, a part of those that the chart gives
// to its ServiceAccount. Sync rules need more.
func AgentRights(namespace string) []Attributes {
	var need []Attributes
	add := func(gvk schema.GroupVersionKind, namespace string, verbs ...string) {
		for _, verb := range verbs {
			need = append(need, Attributes{Verb: verb, GVK: gvk, Namespace: namespace})
		}
	}
	add(v1alpha1.SchemeGroupVersion.WithKind("Cluster"), "", "list", "watch", "create", "patch", "delete")
	add(v1alpha1.SchemeGroupVersion.WithKind("ResourceSyncRule"), "", "list", "watch", "create", "patch", "delete")
	add(v1alpha1.SchemeGroupVersion.WithKind("ClusterFeature"), "", "list", "watch")
	add(schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, v1alpha1.ReadersNamespace(namespace), "create")
	secrets := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	add(secrets, namespace, "get", "list", "watch", "create", "update")
	add(secrets, v1alpha1.PrivateNamespace(namespace), "get", "create", "update")
	return need
}
