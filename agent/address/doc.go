// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package address finds the addresses at which the agents of other clusters dial this one: --mesh-advertise if it is
// set; with --mesh-service, the external addresses of that Service; else the address on which the agent listens.
//
// The publisher of this cluster's own Cluster object calls MeshEndpoints, and Hooks.Changed says when they have
// changed. While the Service has no address, the agent is not ready. After two minutes, in which a cloud may assign
// one, that is a problem of the cluster (Options.Problem). An address that was found once is kept until there is
// another one: the Service may come back, and nothing better is known.
package address
