// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity keeps who this cluster is in the group: its ed25519 key, which signs what it publishes, and the last
// epoch that it has published in. Both are in one private Secret, roster-identity, which is the only thing that a cluster
// cannot get back from the others.
//
// The key is made once, at the first start. It is replaced when this cluster has left the group, and never by itself:
// every member would refuse another key. Each epoch is recorded before anything is signed in it, so that no two starts
// ever share one.
package identity
