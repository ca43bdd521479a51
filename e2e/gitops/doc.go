// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops has Argo CD and Flux use what agentctl writes for them: Argo CD's programs and Flux's kustomize-controller, built by
// build/build.sh, deploy from one real control plane to another. It types what docs/export.md and the examples say. It holds tests
// only, which make e2e-gitops runs; they are no part of make test, since what they run takes a quarter of an hour to build.
package gitops
