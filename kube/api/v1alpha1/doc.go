// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API types of group clusterregistry.k8s.cisco.com:
// Cluster, ResourceSyncRule and ClusterFeature, and the names (annotations, labels,
// namespaces, the Secret type) that agents and users meet on objects.
//
// Manifests written for the existing cluster-registry controller decode into these types
// unchanged. What a manifest may say is checked by the API server, from the schemas and CEL
// rules that controller-gen derives from the markers here; testdata/admission holds one file
// for each thing that it must accept or refuse.
//
// The schemas set no defaults on purpose. An object travels to other clusters as its origin
// stored it; a default that only some versions of the CRD know would make a copy differ from
// its origin for ever. Code reads optional fields through the methods of defaults.go instead.
//
// +k8s:deepcopy-gen=package
// +groupName=clusterregistry.k8s.cisco.com
// +groupGoName=ClusterRegistry
// +kubebuilder:object:generate=false
package v1alpha1
