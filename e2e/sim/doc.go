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
// and messages out of order come by themselves, since each has several ways to an agent. Clocks jump, by up to ten
// years and whenever somebody reads them, in a run of its own (TestClocksThatLie): nothing that is replicated, trusted or
// forgotten depends on one, and the linter sees to that in mesh and replica. What an agent asks the time of day for is
// tested beside it, in package agent. A clock that stops with its machine is a member that is away; that is simulated,
// until its peers have forgotten what was deleted.
//
// What the tests do to whom, and how many segments are lost, is drawn from -seed, which is 1 unless said otherwise, so
// that each run of make sim does the same; make sim-search takes another one. That does not replay a failure to the
// letter: testing/synctest makes the time virtual, not the schedule, and which of several ready goroutines runs, the
// order of a map, the case that a select takes and what mesh and memberlist draw themselves are Go's choice. What is
// replayed exactly by its seed is the state machine test of package replica.
package sim
