// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mesh lets the clusters of a group find each other, notice when one
// is gone, and spread signed messages, without a leader and without a shared
// secret. It knows nothing of Kubernetes, nor of what a message means: that is
// the [State] which its owner passes in.
//
// # Trust
//
// A cluster is a clusterID and an Ed25519 key. [trust.Table] is the table of pins
// (clusterID → key). The one TCP port speaks TLS 1.3 with both sides
// authenticated; a peer is accepted if its key is pinned, and a dialled peer
// only if its key is pinned for the clusterID that was dialled. Removing one
// pin therefore locks out one cluster, also from the connections that it has:
// they are closed, and every frame and call is checked again. Who comes back
// with a removed key is told by whom it was removed, see remove.go. ALPN selects what is spoken:
//
//	roster-packet/1  frames: memberlist packets, messages, announcements
//	roster-stream/1  one memberlist push/pull or fallback ping
//	h2               gRPC: Pull, and the [Method]s of Options.Methods
//	roster-raft/1    what the agents of one cluster say to each other, see [Front]
//	others           what Options.Protocols has a [Handler] for
//
// A peer is hostile until proven otherwise, and then still: every length is
// checked before memory is spent on it, every queue and table has a bound,
// whatever is dropped is counted in roster_mesh_drops_total by reason.
//
// # Membership
//
// Liveness comes from hashicorp/memberlist with its WAN profile. Its packets
// travel over connections (one per pair of members that talk), members are
// named by clusterID and dialled through Options.Endpoints. Gossip about
// clusters that are not pinned is ignored, as are incarnation numbers that a
// member could not exceed to refute. Membership messages are unsigned,
// so a [MemberState] is an opinion: it may be shown, and it may choose whom to
// ask, but nothing may be deleted because of it. A member that lies can say of one
// that stopped that it is alive, or repeat an old goodbye of one that runs, until
// probes or that member refute it. What ends a membership is signed, and
// who is told of it answers for himself only: see remove.go.
//
// # Spreading
//
// What is new, to State.Merge, is sent on at once to about ln N + 3 neighbours:
// those that a member chose and those that chose it; see broadcast.go. What got
// lost is found by comparing the hashes with which digests open (every few
// seconds between neighbours, at every new connection, at every push/pull, and
// when a message shows a gap) and pulled; see sync.go. The digest in a pull
// tells the one who serves it what it lacks itself. An origin whose key is not
// known yet is introduced by the member whose delta carries its own entry, or
// who sent it on. Two members that cannot become equal leave each other alone
// until one changes.
//
// No origin and no member can make others work without bound. Of one origin 20
// messages a second are sent on as they come; the rest is announced, and pulled
// with what has superseded it. A peer whose messages need more than a thousand
// signature checks a second is read more slowly, and one whose deltas repeat what
// is held is asked less often. Any member can introduce others that it invented;
// so signatures, answers to pulls and connections are shared by who admitted whom once there is not enough for all,
// and those that a person has swapped with, or that have less than their share, find places of their own among the pulls
// and the joins; the former also among the neighbours.
//
// # Extension
//
// Other parts of an agent use the port, too, and the mesh knows nothing of what they say: a [Method] is a call with one
// request and one answer, which [Mesh.Call] makes; a [Handler] serves the connections of a protocol of its own, which
// [Mesh.Dial] opens. Both are told who calls, as the handshake has proven it, and end with the caller's pin. Calls are
// bounded in size, number and time; connections in number, and those of strangers in time. The example shows both.
//
// # Life
//
// [New] opens the port and starts nothing. [Mesh.Run] owns every goroutine and
// returns when all have ended; only a probe of memberlist that is under way
// may outlive it, by seconds. Callbacks are called without locks held and must
// not block.
package mesh
