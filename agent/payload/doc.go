// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package payload is what the replica carries of each kind: JSON, made by the origin and read by everybody else, and how
// it becomes a copy. It is pure.
//
// A member may send anything it likes as its own payload, so decoding checks what the rest of the agent relies on; the
// API server checks the rest when a copy is written.
package payload
