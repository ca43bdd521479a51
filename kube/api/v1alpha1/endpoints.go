// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "slices"

// WithoutCAs is endpoints as a list of addresses alone: what proves a server there is the CA of a kubeconfig.
func WithoutCAs(endpoints []KubernetesAPIEndpoint) []KubernetesAPIEndpoint {
	endpoints = slices.Clone(endpoints)
	for i := range endpoints {
		endpoints[i].CABundle = nil
	}
	return endpoints
}
