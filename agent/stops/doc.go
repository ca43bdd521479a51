// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stops is the functions that stop what was started, in reverse order.
package stops
