// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale measures how news spreads in groups of many agents, in virtual time.
//
// It is a test because testing/synctest, which makes the time virtual, works in tests only:
// "make sim-scale" runs it for up to 500 agents and writes docs/scale.md and docs/scale.png. Without
// flags it measures ten agents, so that it keeps working.
//
// Three systems are measured on the same network:
//
//   - roster: the real mesh with the real replica behind it, over its real TLS connections.
//   - queue: hashicorp/memberlist as it comes, with its WAN profile, its TransmitLimitedQueue and its
//     stock RetransmitMult, over bare packets. This is how most programs use memberlist.
//   - quick: the same with the gossip interval of memberlist's LAN profile.
//
// The bound is what no system can beat that sends to as many neighbours as the mesh does: the latency
// times the depth of a full tree.
//
// Bytes are those that are handed to the network: of roster with TLS and all handshakes, of
// memberlist without encryption. Headers of IP, TCP and UDP are not counted.
package scale
