// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers watches the local API server and keeps what the agent reads from it: Clusters, rules, features, and
// the Secrets with credentials in the agent's own namespace.
//
// Registry has a lister for each kind, and calls Handlers for each change, after the lister has it. Start blocks until
// every handler has seen the first complete list. Objects in the listers are shared: never change one. While the API
// server is unreachable, the listers keep the last known state.
package informers
