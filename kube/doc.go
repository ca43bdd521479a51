// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is everything that an agent has to do with Kubernetes API servers: with its own,
// which it writes to, and with those of its peers, which it only reads. It knows nothing of the
// mesh, the replica or what sync rules mean; the agent joins them.
//
//   - LoadConfig and NewClient connect to the local API server; ParseKubeconfig and PeerConfig read
//     what a peer handed over, which is hostile until checked, and VerifyPeer finds out whether the
//     API server at the other end is that peer's.
//   - Client.Watch states the objects of one kind to a Sink: a complete list, then every change, and
//     whether that knowledge is current. It is used for local and remote objects alike.
//     With Positions it does not take the word of an API server that was restored from a backup.
//   - Client.Create, Update, Delete and Read are single requests. The decision what to write is
//     the caller's, taken from what was watched; the preconditions of Update and Delete make a
//     decision that was taken too late fail as a conflict.
//   - Client.Clusters, Rules, Features and Secrets are the same for the kinds that an agent always
//     has, as values of Go types; Recorder writes events about them.
//   - Client.MissingRights names missing rights in words.
//   - Issuer makes the short-lived kubeconfigs that peers read this cluster with, and FindServer
//     the address that they use for it.
//   - DescribeCluster and WatchNodes fill the metadata in a Cluster's status.
//
// # Errors
//
// Every error is one line that can be shown in a condition or on a terminal; it holds no secret,
// and at most 512 bytes of what a server sent. Its class is found with errors.Is: ErrUnreachable,
// ErrUnauthorized, ErrForbidden, ErrKindUnknown, ErrRestored, ErrWrongCluster, ErrKubeconfig. API status errors
// such as conflicts and missing objects stay visible to k8s.io/apimachinery/pkg/api/errors.
//
// # Time
//
// There is no client-side rate limit. A refused connection is noticed at once; an API server that
// vanishes silently after at most 40 seconds (transport.go), without any request being sent.
// Attempts to reach it again come at most 5 seconds apart; attempts at what a person has to
// mend, such as a missing right, at most 38.
package kube
