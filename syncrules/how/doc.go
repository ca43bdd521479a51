// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package how says how a rule deals with what is in the place of a copy: spec.mode and spec.conflictPolicy. It is pure.
package how
