// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

// The manifests of the quickstart, to the letter. The Secret has no namespace: it is applied with
// -n cluster-registry.
const (
	QuickstartSecret = `apiVersion: v1
kind: Secret
metadata:
  name: test-secret
data: {}`

	QuickstartRule = `apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata:
  name: test-secret-sink
spec:
  groupVersionKind:
    kind: Secret
    version: v1
  rules:
  - match:
    - objectKey:
      name: test-secret
      namespace: cluster-registry`

	QuickstartFeature = `apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ClusterFeature
metadata:
  name: test-secret-source
spec:
  featureName: test-secret-feature`
)
