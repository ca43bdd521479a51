// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry converts between the two forms of a Cluster: the one of group clusterregistry.k8s.cisco.com, which
// is stored, and the one of group clusterregistry.k8s.io, the view, which is made from it for each reader. The
// functions are pure.
//
// What is written in one form survives a write in the other. So a write of the view is a change of the stored Cluster
// that it was made from, and what the view does not show stays as it is.
//
//	view                                              stored
//	metadata                                          metadata; managedFields are in an annotation that is not shown
//	spec.kubernetesApiEndpoints.serverEndpoints[]     spec.kubernetesApiEndpoints[], found by clientCIDR and serverAddress
//	spec.kubernetesApiEndpoints.caBundle              caBundle of all entries, where they have the same one
//	spec.authInfo.user                                spec.authInfo.user
//	spec.authInfo.controller                          spec.authInfo.controller; else, of kind Secret, spec.authInfo.secretRef
//	status.conditions[], OK and Ready                 status.conditions[], Ready and OK
//	                                                  everything else
package registry
