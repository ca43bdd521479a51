// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health is how the agent tells that something is wrong: whether it is ready, at /readyz (Health), what is wrong
// with this cluster's own part, in the status of its Cluster object (Problems), and what is logged once (Once).
package health
