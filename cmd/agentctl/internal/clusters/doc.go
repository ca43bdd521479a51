// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusters is how agentctl reaches API servers, and how it reads what agents have written there.
//
//   - Access names a cluster as a user does; Client is that cluster. Every request is bounded in time.
//   - Client lists Clusters and ResourceSyncRules, finds the Cluster object of the cluster itself, and asks an agent for
//     something with an annotation.
//   - Reader reads objects of any kind, which it finds as kubectl does.
//   - MemberHealth and RuleHealth judge what an agent has written. They are pure.
//
// An error is one line that names the context. It never holds what a Secret holds.
//
// Package kube has a loader and a client of its own, for agents. Here a kubeconfig is found as kubectl finds it, in
// several files and with a current context, and only the kinds that are asked for are decoded: an agentctl that is
// older than the CRDs must not drop the fields that it does not know.
package clusters
