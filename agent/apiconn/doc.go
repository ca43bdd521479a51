// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiconn has what the agent adds to its connections to API servers: the time by the server's clock (Clock), a
// count of requests (Meter), a bearer token that can be replaced while watches are open (Token), and a value to compare
// where two connections lead (Target). It also names the states of the access to a peer (Access).
//
// The agent wraps the transport of each client with Meter.Side, which counts the requests and sets the Clock. All types
// are safe for concurrent use.
package apiconn
