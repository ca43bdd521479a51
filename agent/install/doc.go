// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install checks at the start that the chart is installed: the rights of the agent and the CRDs (Check). It
// turns the errors of a start that cannot work into one line that says what to do: AccessError, MeshListenError,
// DataDirError. ApplyCRDs upgrades the CRDs of the cluster; the chart's upgrade hook runs it.
//
// Functions that check values of flags are here, too: CheckHostPort, CheckGroup, CheckMeshService, ParseLabels.
//
// It has no state, and Check writes nothing.
package install
