// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testbed runs independent Kubernetes control planes on the loopback interface, for tests
// that must not believe a fake.
//
// A plane is one etcd, one kube-apiserver and one kube-controller-manager, each its own process.
// With "--kubernetes oldest" the API servers are of the oldest version that Roster supports, and the rest as always.
// There are no nodes and no pods. RBAC is on, ServiceAccount tokens work, and the controllers for
// ServiceAccounts, their tokens, the root CA, namespaces, garbage collection and ClusterRole
// aggregation run.
//
// "testbed up" stays in the foreground and owns every process: they end with it, also when it is
// killed. Everything it writes is in one directory:
//
//	DIR/cluster-1.kubeconfig   admin access, certificates inline, context cluster-1
//	DIR/pids.json              component name to process id; a stopped component is absent
//	DIR/testbed.sock           where "testbed stop", "start" and "status" reach it
//	DIR/cluster-1/             keys, certificates, ports, etcd data, one log per component
//
// A plane's ports are chosen once and kept in its folder, so an outage of one component leaves every
// kubeconfig valid.
//
// The program uses the standard library alone, so that it builds in seconds although its module
// also pins Kubernetes, etcd and helm as tools.
package main
