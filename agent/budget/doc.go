// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget lets a loop write only so much to the local API server because of one other cluster.
//
//	reconcile(key) ── Write ──► it is written
//	                       └──► loop.ErrWaits, which reconcile returns; the loop gets the key again when its turn has come
//
// A loop of which thousands of keys may wait asks StillWaits before it finds out what it would write.
//
// It is package quota with a lock and a clock. A Budget is for one loop, and safe for concurrent use.
package budget
