// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package anew says which copies are deleted and made anew, because a field changed that cannot be.
package anew
