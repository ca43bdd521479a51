// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore stops publishing after the local API server went back in time, until a person has confirmed its
// state. Gate says whether this cluster is frozen.
//
// An API server that was restored from a backup lacks what was created since, and that does not mean that anybody
// deleted it. There are three signs: the API server's history lacks what was read before (history.Positions); after a
// restart, members hold entries of an epoch that this cluster has no record of; and a CRD was deleted, which deletes
// its objects with the same events as if a person had deleted each of them.
//
// After any of these signs nothing is published, and no rule counts as deleted or edited, until a person confirms the
// present state: with a new value of an annotation on the cluster's own Cluster object.
//
//	open ──── Freeze ────► frozen, annotation unknown ──── first Confirm ────► frozen, annotation known
//	  ▲                                                                              │
//	  └──────────────────────────── Confirm reads another annotation ────────────────┘
//
// The freeze begins before the informers have anything of the new history. So a caller that first reads a lister, and
// then asks Frozen, never acts on the state after a restore.
//
// The freeze is recorded in the Secret with the cluster's key, so that a restart does not end it.
package restore
