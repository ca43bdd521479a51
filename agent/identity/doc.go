// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity keeps the identity of this cluster: its ed25519 key, which signs what it publishes, and the last
// epoch in which it published. Both are in one Secret of the private namespace, roster-identity. It is the only Secret
// that a cluster cannot rebuild from others: back it up.
//
// The agent makes the key at its first start. Only leaving the group replaces it, because every member would refuse
// another key. Each epoch is recorded before anything is signed in it, so that no two starts use the same epoch.
package identity
