// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API types of group clusterregistry.k8s.io: the Cluster of the Kubernetes SIG's
// cluster registry, for clients that were written for it.
//
// Nothing is stored in this group. A server shows each Cluster of group clusterregistry.k8s.cisco.com in this
// form and writes changes back to it; kube/registry says which field is which. Field names and their meaning are
// the SIG's.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.clusterregistry.v1alpha1
// +groupName=clusterregistry.k8s.io
// +groupGoName=Registry
package v1alpha1
