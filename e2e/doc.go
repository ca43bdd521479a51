// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the real binaries against real control planes. It holds tests only.
//
// Most tests share one group: the clusters alpha, beta and gamma with an agent each, and delta, a control
// plane with the CRDs and no agent. A test that breaks something fixes it before it ends. Run by root, the
// tests are in a network namespace of their own, which the partition tests need. -short shortens outages.
//
// ROSTER_E2E_KUBERNETES chooses the control planes: newest, oldest, or standalone for Roster's own API server. standalone_test.go
// says what is left out with the last one.
package e2e
