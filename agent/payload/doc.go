// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package payload has the format of what clusters publish: the JSON of each kind in the replica, made by the origin and
// read by all others, and how it becomes a copy. It is pure: values in, values out.
//
// A member may put anything into its own payloads, so decoding checks what the agent relies on; ErrPayload says that a
// payload cannot be used. The API server checks the rest when a copy is written.
package payload
