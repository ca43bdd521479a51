// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package address finds out where the agents of other clusters dial this one: at the address that a person gave
// (--mesh-advertise); else, with --mesh-service, where that Service leads from outside of the cluster; else where the
// agent itself listens.
//
// Whoever publishes this cluster's own Cluster object asks for MeshEndpoints, and is told by Hooks.Changed when they are
// others. A Service that has no address makes the agent not ready, and after two minutes, in which a cloud may give it
// one, it is a problem of the cluster. An address that was found once is told until there is another one: the Service
// may come back, and nothing better is known.
package address
