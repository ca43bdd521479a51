// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench takes Roster's figures on real control planes on this machine, and says of each whether it
// meets the budget of the design: `make bench`.
//
// What agents do is always compared with what API servers take for the same without agents, in the same run and
// by turns, so that a slow or busy machine is slow for both. Each figure has two companions:
//
//   - bare: client-go alone writes to the source and to the targets, with no watch in between. One object at a
//     time: the request at the source until a watch there shows it, plus one request at one target until it is
//     answered. In bulk: the same requests at the source and at all targets, all at the same time.
//     What it writes to a target has marks of the number and size of a copy's.
//   - by hand: the least that carries objects over, a watch whose events become requests (hand.go). It cannot do
//     what an agent must; nothing that is an agent can be faster. Latency is measured against it.
//
// "Visible" is always: a watch of the target, on a connection of its own, has delivered it to this process. All
// connections are HTTP/2 and speak protobuf, as an agent's do for Secrets.
//
// One part measures no agents: `--only standalone` compares Roster's API server for clusters without Kubernetes with
// Kubernetes' own (standalone.go).
//
// It ends with status 3 when everything was measured and a budget was missed.
package main
