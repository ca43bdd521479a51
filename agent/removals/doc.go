// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removals records the removals that a cluster knows, and guards it against those of a stolen key: package
// replica/removalguard decides, Guard has what it decides by.
//
//	statement ──► by this cluster, an authority, or the cluster itself ───────────────► in effect
//	          ──► of a cluster that is not known here: waits until it is introduced
//	          ──► by a member, within its limit ──────────────────► in effect, counts ─┐
//	          ──► any other: held, nothing ends                                         ├── a person confirms ──► in effect
//	                                                                               ────┘
//
// That a cluster itself is removed takes effect there once most others, that the author did not bring, refuse it.
package removals
