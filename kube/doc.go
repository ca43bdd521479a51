// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube talks to Kubernetes API servers: to that of the agent's own cluster, which it writes
// to, and to those of its peers, which it only reads. It knows nothing of the mesh, the replica or
// what sync rules mean; the agent joins them.
//
//   - LoadConfig and NewClient connect to the local API server; ParseKubeconfig and PeerConfig read
//     what a peer sent, which is hostile until checked, and VerifyPeer checks that the API server at
//     the other end is that peer's.
//   - Client.Watch hands the objects of one kind to a Sink: a complete list, then every change, and
//     whether they are up to date. It is used for local and remote objects alike. With Positions
//     (package history) it refuses an API server that was restored from a backup.
//   - Client.Create, Update, Delete and Read are single requests. The caller decides what to
//     write from what it watches; with the preconditions of Update and Delete, a decision from
//     outdated objects fails as a conflict.
//   - Client.Clusters, Rules, Features and Secrets are the same for the kinds that an agent always
//     has, as values of Go types; Recorder writes events about them.
//   - Client.MissingRights asks for missing permissions and names them, for a message.
//   - Issuer makes the short-lived kubeconfigs that peers read this cluster with, and FindServer finds
//     the address that they use for it.
//   - DescribeCluster and WatchNodes fill the metadata in a Cluster's status.
//
// Two packages below it know no Client: codec encodes and decodes objects, and history notices a
// restore.
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
// There is no client-side rate limit. A refused connection is noticed at once, an API server that
// stops to answer after at most 40 seconds (transport.go), without any request being sent.
// Retries are at most 5 seconds apart; where a person has to fix something first, such as a missing
// permission, at most 38.
package kube
