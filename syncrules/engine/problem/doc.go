// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package problem reads errors: what kind of error it is (Class), why a copy could not be written (Problem), whether a
// field cannot be changed (Immutable), and what may be told to people about it (Describe).
//
// API servers tell many errors apart by their text alone. All of those texts are here, and tests on real API servers
// check them. What is said of a Secret never repeats its content.
//
// All of it is pure: errors in, values out.
package problem
