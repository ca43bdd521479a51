// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests charts/agent: what helm renders from it, what it refuses, and what a real API server and a real
// agent make of it. `make e2e` runs it.
//
// charts/agent/testdata has sets of values, and for each what is rendered from it: default.golden.yaml whole, of the
// others the documents that are not the same there. `UPDATE_GOLDEN=1 go test ./e2e/chart -run Golden` writes them.
package chart
