// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package visible says what templates see of a Cluster object.
package visible
