// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers keeps what the agent reads of its own API server: the Clusters, rules and features, and the
// credentials that a swap may have put into the agent's namespace.
//
// Objects in the listers are shared: never change one. While the API server is away they are as they were last known.
package informers
