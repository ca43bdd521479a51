// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels of a ClusterProfile, and names of properties, that the APIs define.
const (
	labelManager       = "x-k8s.io/cluster-manager"
	labelMemberID      = "multicluster.x-k8s.io/inventory-member-id"
	propertyCluster    = "cluster.clusterset.k8s.io"
	propertyClusterSet = "clusterset.k8s.io"
	conditionHealthy   = "ControlPlaneHealthy"
)

// Manager is the name of Roster in spec.clusterManager. A profile that has it is ours.
const Manager = "roster"

// profileKinds are the versions of ClusterProfile that the agent knows, best first. The fields that it writes are the same.
func profileKinds() []schema.GroupVersionKind {
	return kindsOf("multicluster.x-k8s.io", "ClusterProfile", "v1alpha2", "v1alpha1")
}

// propertyKinds are the versions of ClusterProperty, best first.
func propertyKinds() []schema.GroupVersionKind {
	return kindsOf("about.k8s.io", "ClusterProperty", "v1beta1", "v1alpha1")
}

func kindsOf(group, kind string, versions ...string) []schema.GroupVersionKind {
	all := make([]schema.GroupVersionKind, len(versions))
	for i, version := range versions {
		all[i] = schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	return all
}

// clusterProfile has the fields of a ClusterProfile that the agent reads and writes. Writes keep the others.
type clusterProfile struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec   profileSpec   `json:"spec"`
	Status profileStatus `json:"status"`
}

type profileSpec struct {
	DisplayName    string         `json:"displayName,omitempty"`
	ClusterManager clusterManager `json:"clusterManager"`
}

type clusterManager struct {
	Name string `json:"name"`
}

type profileStatus struct {
	Conditions      []metav1.Condition `json:"conditions,omitempty"`
	Version         profileVersion     `json:"version"`
	Properties      []profileProperty  `json:"properties,omitempty"`
	AccessProviders []accessProvider   `json:"accessProviders,omitempty"`
}

type profileVersion struct {
	Kubernetes string `json:"kubernetes,omitempty"`
}

type profileProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// LastObservedTime is kept where others set it. The agent does not: it would have to write it again and again.
	LastObservedTime *metav1.Time `json:"lastObservedTime,omitempty"`
}

// accessProvider says how a cluster is reached. Cluster is that of a kubeconfig, as JSON.
type accessProvider struct {
	Name    string         `json:"name"`
	Cluster map[string]any `json:"cluster,omitempty"`
}

// clusterProperty has the fields of a ClusterProperty that the agent reads and writes.
type clusterProperty struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec propertySpec `json:"spec"`
}

type propertySpec struct {
	// Value is never empty in the API server. To apply none is to give up the one that was applied.
	Value string `json:"value,omitempty"`
}
