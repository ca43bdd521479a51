// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

// consumer is a program's account, and what a person grants it: one Secret by name.
const consumer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: consumer, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: consumer, namespace: %[2]s}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [%[3]s], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: consumer, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: consumer}
subjects: [{kind: ServiceAccount, name: consumer, namespace: %[1]s}]
`

// foreign is a profile that another manager keeps.
const foreign = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: other, namespace: NAMESPACE, labels: {x-k8s.io/cluster-manager: fleet}}
spec: {displayName: other, clusterManager: {name: fleet}}
`

// propertyCRD has what the agent needs of the CRD of about.k8s.io, whose module cannot be had.
const propertyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: about.k8s.io
  names: {kind: ClusterProperty, listKind: ClusterPropertyList, plural: clusterproperties, singular: clusterproperty}
  scope: Cluster
  versions:
  - &version
    name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, required: [value], properties: {value: {type: string, minLength: 1}}}
`
