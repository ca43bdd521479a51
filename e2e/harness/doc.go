// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness runs what Roster's end-to-end tests, its demo and its measurements share: real control
// planes (e2e/testbed), the chart installed into each as its documentation says, and one agent process
// beside each, with the rights of the chart's ServiceAccount and no others.
//
//	Fleet ── Cluster alpha ── kube-apiserver, etcd, kube-controller-manager   (children of bin/testbed)
//	     │                └── bin/agent run                                   (a child of this process)
//	     └── Cluster beta …
//
// With Options.Embedded the agents run the API servers, and there is no testbed and no chart:
//
//	Fleet ── Cluster alpha ── bin/agent run --local embedded   (a child of this process)
//	     │                    └── bin/roster-apiserver         (a child of the agent)
//	     └── Cluster beta …
//
// Everything lies in one folder and ends with the process that called Up, also when that is killed.
// Methods of a Fleet and its Clusters may be called from several goroutines; those that start, stop or cut
// something must not race with each other for one cluster.
//
// Faults: an agent can be killed, an API server stopped, and two agents cut from each other while others
// reach both. The last needs root and a network namespace of its own; see InNetworkNamespace.
package harness
