// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agenttest is what the tests of several parts of the agent need: an API server that keeps Secrets, clusters with
// keys, and kubeconfigs. What depends on how a real API server behaves is tested in e2e.
package agenttest
