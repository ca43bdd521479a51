// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notify takes what a watch of a few objects finds.
package notify
