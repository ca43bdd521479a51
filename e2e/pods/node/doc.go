// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node runs real Kubernetes clusters of one node each, side by side on one Linux machine: etcd, API server,
// controllers, scheduler, kubelet, containerd, CNI plugins and kube-proxy, as in a data centre, with pods.
//
//	this process, in a network namespace of its own (harness.InNetworkNamespace)
//	  │ switch 10.250.0.1/24 ── v-1 ─┬─ eth0 10.250.0.11, node cluster-1: own net, pid, mount and UTS namespace
//	  │                              │    init (Init, pid 1) ── etcd, kube-apiserver, containerd, kubelet …
//	  │                              │    pods 10.201.0.0/24, Services 10.97.0.0/16
//	  │                      ── v-2 ─── eth0 10.250.0.12, node cluster-2 …
//
// The clusters reach each other by node addresses only, as clusters do: no pod network is routed to another cluster.
// This process reaches all of it.
//
// What a node is made of ends with its pid 1, and that with this process, also when it is killed: the namespaces, with
// their mounts and interfaces, go with the last process in them. The kubelet's changes to the machine's sysctls
// are kept from the machine by files that lie over them. What can outlive a kill is a folder and empty cgroups;
// the next Up removes them.
//
// A program that calls Up must call Init first thing in main or TestMain: a node's pid 1 is the same program.
package node
