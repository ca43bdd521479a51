// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiconn is what the agent's connections to API servers carry beside requests: the time there (Clock), the count
// of requests (Meter), a token that can be replaced while watches are open (Token), and where they lead (Target).
package apiconn
