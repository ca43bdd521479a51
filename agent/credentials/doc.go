// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials issues what other clusters read this one with: kubeconfigs with short-lived tokens of accounts in
// the readers' namespace.
//
//	bootstrap credential   account bootstrap          in a Secret beside the own Cluster object, which a person swaps
//	a member's             account reader-CLUSTERID   handed to its agent over the mesh, which asks again in time
//
// Each member has an account of its own, so that what it was given ends with its membership (Revoke). A removed member
// may know the bootstrap credential, too, so that is replaced then (Reissue). A token is renewed when a fifth of its life
// is left, by the clock of the API server.
package credentials
