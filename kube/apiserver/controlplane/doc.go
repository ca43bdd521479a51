// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane builds an API server of the kinds that need no nodes: Namespaces, Secrets, ConfigMaps,
// ServiceAccounts, Events, Leases, RBAC, reviews, certificates, admission and its policies, flow control, CRDs and
// APIServices. It stands for what upstream has in k8s.io/kubernetes/pkg/controlplane/apiserver, its options and its
// sample of a generic control plane, and puts the same parts together in the same way. Those packages import
// everything that any API server of Kubernetes can be told to do: thirty admission plugins for Pods, volumes and
// nodes, and the storage of all kinds; compiling that takes a minute more, and nothing of it is served here.
//
// Each file names the one that it stands for, so that both can be compared when Kubernetes is upgraded.
package controlplane
