// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profiles tests the ClusterProfiles of an agent with the CRD, the library and the plugin that SIG Multicluster
// publishes for them.
package profiles
