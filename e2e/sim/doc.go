// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sim runs many agents in one process, in virtual time and on a network in memory.
//
// An agent here is the real mesh with the real replica behind it, and a map in the place
// of its API server. What the simulation asserts is what a group promises its users:
// members that can reach each other end up equal; every change that an origin acknowledged
// is present; nothing is shown older than it was shown before; nothing is called absent
// that its origin did not delete.
//
// What goes wrong on the way: latency with jitter, loss, thin links, partitions also in one
// direction, crashes, lost disks, members that come and go, one that never stops talking. Duplicates
// and messages out of order come by themselves, since each has several ways to an agent. Clocks that
// jump are not simulated: agents of one bubble share its clock, and nothing that is replicated or
// trusted depends on one.
//
// testing/synctest makes the time virtual, not the schedule: a failure is not replayed by a
// seed. What can be replayed is the state machine test of package replica.
package sim
