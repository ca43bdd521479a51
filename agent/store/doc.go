// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps what the agent must remember in Secrets of its private namespace, at the local API server, so that
// the next agent finds it on whatever machine. Each part of the agent has Secrets, or keys of one, of its own.
package store
