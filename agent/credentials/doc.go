// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials issues the credentials with which other clusters read this one: kubeconfigs with short-lived
// tokens of ServiceAccounts in the readers' namespace.
//
//	bootstrap credential    account bootstrap          in a Secret beside the own Cluster object; a person swaps it
//	credential of a member  account reader-CLUSTERID   sent to its agent over the mesh, on request (Issue)
//
// Run keeps the bootstrap credential valid. A token is renewed when a fifth of its life is left, by the clock of the
// API server. Each member has an account of its own, so that Revoke ends its access when its membership ends. A removed
// member may know the bootstrap credential, too, so Reissue replaces that.
package credentials
