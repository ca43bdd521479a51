// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agenttest has what tests of several parts of the agent share: an API server that keeps Secrets in memory,
// clusters with keys, signers, and kubeconfigs. What depends on the behaviour of a real API server is tested in e2e.
package agenttest
