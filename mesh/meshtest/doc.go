// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package meshtest is an in-memory network on which many meshes run in one
// process, in real time or inside a testing/synctest bubble.
//
// A Network has named hosts; a host meets mesh.Network. Connections behave
// like TCP over a path that can be slow, lossy or cut: bytes are delivered in
// order after the link's latency (with jitter, if set) and as fast as its
// bandwidth allows, a lost segment costs a retransmission delay, and a cut holds bytes back (nobody is told) until it heals. There is no
// packet interface, because the mesh has none.
//
// Everything that waits, waits on a channel, a timer or a sync.Cond, so that a
// bubble's clock advances. Make the Network inside the bubble that uses it.
package meshtest
