// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the real binaries against real control planes. It holds tests only.
//
// Most tests share one group: the clusters alpha, beta and gamma with an agent each, and delta, a control
// plane with the CRDs and no agent. A test that breaks something fixes it before it ends. Run by root, the
// tests are in a network namespace of their own, which the partition tests need. -short shortens outages.
package e2e
