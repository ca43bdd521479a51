// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict remembers what was found by reading the place of a copy, so that it is not read again for each of many
// clusters that offer the same.
package verdict
