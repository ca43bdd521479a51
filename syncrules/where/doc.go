// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package where says in which clusters copies of a rule are wanted: spec.targets. It is pure.
//
// The fields of a selector are ANDed, and compared with what the agent of that cluster says of it on its own Cluster object.
// What a cluster does not say is Unknown, and then copies stay as they are: an agent that has just started says nothing of
// its region for a moment, and a cluster without nodes has none until it has nodes again.
package where
