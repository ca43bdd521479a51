// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps what the agent must remember in Secrets of its private namespace in the local API server, so that
// the next agent finds it on whatever machine it runs. Each part of the agent has Secrets, or keys in a shared Secret,
// of its own; the part names them and encodes what is in them.
//
// Store reads and writes such Secrets, and retries a write after a conflict. It writes only what differs.
package store
