// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testserver stands in for github.com/fluxcd/pkg/testserver, which only tests of the controller import. They are not built, but
// go mod tidy wants to know where the package is.
package testserver
