// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps what a replica holds on disk: a raft log (hashicorp/raft on
// raft-boltdb) with snapshots in files. It is the only package that knows raft.
//
// It knows nothing of what an operation means, either: a [Machine] applies operations
// that are durable, and writes and reads snapshots of what they came to. Operations that wait
// are appended together, as one raft command, so that one commit of the disk carries all that came
// while the last one lasted. What peers have waits for more of it before that, for up to [maxDelay]:
// etcd may wait for its own commits on the same disk.
//
// # Alone and in a group
//
// An agent that is alone is the only voter, and leads from its start. Several agents of one
// cluster are one [Group]: all of their machines follow, and only the one that leads appends, for
// as long as its [Term] lasts. A [Record] outside of raft names the group, so that it is decided
// once who begins it, and a directory that is of another group is of no use:
//
//	nothing ── begins it, where the record says so ──► in the group
//	nothing ── asks the others to be taken in ───────► in the group
//	in the group ── the record names another one ────► ErrOtherGroup: open again
//	in another group ── set aside, new server ID ────► nothing
//	in another group ── the record begins with it ───► in the group, alone, with all that it holds
//
// A server that lost its disk is another server. One that is new to the group has a vote at once where that raises no
// quorum, and else when it has caught up; [Status] says until then, and whenever it lags, that it is behind. A record of
// another key of the cluster is no record. What one server says to another names both the
// group and the server that it is for.
//
// # The directory
//
//	owner.json           whose it is: clusterID, public key, server ID of raft, group
//	attempts             how many starts did not get as far as a leader; gone after one that did
//	lock                 held by the process that has the directory
//	raft/log.db          log, term and vote
//	raft/snapshots/      the newest snapshot
//	set-aside-<time>/    the last raft directory that could not be used
//
// A directory that cannot be read is a disk that was lost, and no more: it is set aside, and
// the machine starts empty. It is read to the end before raft gets to see it, since
// raft ends the process on what it cannot read; where it brings down the process even so, it is
// set aside by the start after the third. A disk that cannot be written to ends the journal with
// an error, and nothing that was not written before has happened.
//
// # Its size
//
// A snapshot is taken once the log has grown by the size of the last snapshot, at least
// [minLog]. So the disk holds at most two snapshots (the new one, while it is written), the log
// that grew meanwhile, and the room in log.db that deleted entries leave, which is used again:
// in all less than 8 × max(snapshot, 8 MiB). What was set aside comes on top.
package journal
